! Queues over the parts of an array of types: each object's allocatable members are brought, changed and taken home in a queue of its own.
module parts
  implicit none
  type part
    integer :: n = 0
    real(8), allocatable :: x(:), y(:)
  end type
end module
program main
  use check
  use parts
  implicit none
  integer, parameter :: count_of_parts = 6
  type(part) :: p(count_of_parts)
  integer :: k, i
  do k = 1, count_of_parts
    p(k)%n = 100*k
    allocate (p(k)%x(p(k)%n), source=real(k, 8))
    allocate (p(k)%y(0:p(k)%n), source=0d0)
  end do
  !$acc enter data copyin(p)
  do k = 1, count_of_parts
    !$acc enter data copyin(p(k)%x) create(p(k)%y) async(k)
    !$acc parallel loop present(p) async(k)
    do i = 1, p(k)%n
      p(k)%y(i) = p(k)%x(i)*i
    end do
    !$acc serial present(p) async(k)
    p(k)%y(0) = p(k)%y(p(k)%n) + size(p(k)%x)
    !$acc end serial
  end do
  do k = count_of_parts, 1, -1
    !$acc update self(p(k)%y) async(k)
    !$acc exit data delete(p(k)%x, p(k)%y) async(k)
  end do
  !$acc wait
  !$acc exit data delete(p)
  do k = 1, count_of_parts
    call equal('y(0)', p(k)%y(0), 100d0*k*k + 100*k)
    call equal('y(10)', p(k)%y(10), 10d0*k)
    call equal('x', p(k)%x(1), real(k, 8))
  end do
  call pass()
end program
