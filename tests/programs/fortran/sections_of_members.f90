! Sections of an explicit-shape member of a type: brought, updated and taken home part by part, while its neighbours stay the host's.
program main
  use check
  implicit none
  type field
    integer :: before
    real(8) :: v(6, 10)
    integer :: behind
  end type
  type(field) :: f
  integer :: i, j
  f%before = 1
  f%v = 1
  f%behind = 2
  !$acc enter data copyin(f)
  !$acc parallel loop collapse(2) present(f)
  do j = 1, 10
    do i = 1, 6
      f%v(i, j) = f%v(i, j) + i + 10*j
    end do
  end do
  f%before = 5
  !$acc update self(f%v(:, 3:4))
  call equal('updated', f%v(6, 4), 47d0)
  call equal('not updated', f%v(1, 5), merge(1d0, 52d0, separate()))
  f%v(:, 7) = -1
  !$acc update device(f%v(:, 7:7))
  !$acc update self(f%v)
  call equal('the host''s column', sum(f%v(:, 7)), -6d0)
  call equal('all others', f%v(2, 10), 103d0)
  call equal('its neighbour', f%before, 5)
  !$acc exit data delete(f)
  call pass()
end program
