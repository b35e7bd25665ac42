! declare of blocks of common by their names: present in all procedures that declare the block so (2.13).
module shared_names
contains
  subroutine fill(by)
    integer, intent(in) :: by
    real :: a(30), b(30)
    integer :: i
    common /fields/ a, b
    !$acc declare create(/fields/)
    !$acc parallel loop
    do i = 1, 30
      a(i) = by*i
      b(i) = -by*i
    end do
  end subroutine
end module
program main
  use check
  use shared_names
  implicit none
  real :: a(30), b(30)
  common /fields/ a, b
  !$acc declare create(/fields/)
  integer :: i
  a = 0
  b = 0
  call fill(3)
  call equal('the host''s a', a(30), merge(0.0, 90.0, separate()))
  !$acc update self(a(1:30), b(2:30))
  do i = 2, 30
    call equal('a', a(i), 3.0*i)
    call equal('b', b(i), -3.0*i)
  end do
  a = 1
  !$acc update device(a(11:20))
  !$acc parallel loop
  do i = 1, 30
    a(i) = a(i) + 1
  end do
  !$acc update self(a(1:30))
  call equal('as the region left it', a(10), merge(31.0, 2.0, separate()))
  call equal('as the update brought it', a(11), 2.0)
  call pass()
end program
