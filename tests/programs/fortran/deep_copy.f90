! An array of derived types with allocatable components, mapped one by one.
program main
  use check
  implicit none
  type :: row
    integer :: n
    real(real64), allocatable :: v(:)
  end type
  integer, parameter :: rows = 12
  type(row) :: t(rows)
  integer :: i, r
  do r = 1, rows
    t(r)%n = r
    allocate (t(r)%v(r))
    t(r)%v = r
  end do
  !$acc enter data copyin(t)
  do r = 1, rows
    !$acc enter data copyin(t(r)%v)
  end do
  !$acc parallel loop present(t)
  do r = 1, rows
    do i = 1, t(r)%n
      t(r)%v(i) = t(r)%v(i)*10 + size(t(r)%v)
    end do
  end do
  do r = 1, rows
    !$acc exit data copyout(t(r)%v)
  end do
  !$acc exit data delete(t)
  do r = 1, rows
    do i = 1, r
      call equal('v(i)', t(r)%v(i), 11.0_real64*r)
    end do
  end do
  call pass()
end program
