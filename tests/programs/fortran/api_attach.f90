! attach and detach: the clauses on pointers and allocatable members, their counter, and the routines by c_ptr of the member's descriptor
! (2.7.2, 3.2.29).
! BUILD headers
! BUILD linked
! EXPECT device-memory
program main
  use, intrinsic :: iso_c_binding
  use check
  use openacc
  implicit none
  type node
    integer :: n
    real(8), pointer :: v(:) => null()
  end type
  type(node), target :: x
  real(8), target :: one(20), two(20)
  integer :: i
  one = 1
  two = 2
  x%n = 20
  x%v => one
  !$acc enter data copyin(one, two)
  !$acc enter data copyin(x)
  !$acc enter data attach(x%v)
  call fill(10d0)
  !$acc enter data attach(x%v)
  !$acc exit data detach(x%v)
  call fill(100d0)
  !$acc exit data detach(x%v)
  x%v => two
  !$acc update device(x)
  !$acc enter data attach(x%v)
  call fill(1000d0)
  !$acc exit data detach(x%v) finalize
  !$acc exit data copyout(one, two) delete(x)
  call equal('one', one(20), 1 + 110*20d0)
  call equal('two', two(20), 2 + 1000*20d0)
  call pass()
contains
  subroutine fill(by)
    real(8), intent(in) :: by
    !$acc parallel loop present(x)
    do i = 1, x%n
      x%v(i) = x%v(i) + by*i
    end do
  end subroutine
end program
