! Variables of common blocks: in clauses, by update, and across procedures.
subroutine step()
  implicit none
  integer :: n
  real(8) :: x(50), y(50)
  common /fields/ n, x, y
  integer :: i
  !$acc parallel loop present(x, y)
  do i = 1, 50
    y(i) = y(i) + 2*x(i)
  end do
end subroutine
program main
  use check
  implicit none
  integer :: n, i
  real(8) :: x(50), y(50)
  common /fields/ n, x, y
  n = 50
  do i = 1, n
    x(i) = i
    y(i) = 1
  end do
  !$acc data copyin(x) copy(y)
  call step()
  call step()
  !$acc update self(y(1:10))
  call equal('y(10)', y(10), 41d0)
  !$acc parallel loop
  do i = 1, 50
    y(i) = y(i) - 1
  end do
  !$acc end data
  do i = 1, n
    call equal('y(i)', y(i), 4d0*i)
  end do
  !$acc parallel loop copy(y)
  do i = 1, 50
    y(i) = -y(i)
  end do
  call equal('y(50)', y(50), -200d0)
  call pass()
end program
