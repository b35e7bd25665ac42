! The data routines by Accord's module for assumed-shape dummies, pointers, and allocatable members: what is present is the array, where
! GCC's own module passes a packed copy of it. Arrays with gaps are an error.
! BUILD headers
module work
  use openacc
  implicit none
contains
  subroutine bring(x, y)
    real(8), intent(in) :: x(:), y(0:, :)
    call acc_copyin(x)
    call acc_copyin(y)
  end subroutine
  subroutine bring_pointer(p)
    real(8), pointer, intent(in) :: p(:)
    call acc_copyin(p)
  end subroutine
  subroutine take(x, y)
    real(8), intent(inout) :: x(:), y(:, :)
    call acc_copyout(x)
    call acc_update_self(y)
    call acc_delete(y)
  end subroutine
end module
program main
  use check
  use work
  implicit none
  type holder
    real(8), allocatable :: v(:)
  end type
  real(8), target :: a(12), b(6, 5), c(8)
  real(8), pointer :: p(:)
  type(holder) :: h
  integer :: i, j
  a = 1
  b = 2
  c = 3
  call bring(a(3:10), b(:, 2:4))
  call equal('x', acc_is_present(a(3:10)), .true.)
  call equal('not around it', acc_is_present(a), want(.false., .true.))
  call equal('y', acc_is_present(b(1:6, 2:4)), .true.)
  !$acc parallel loop present(a(3:10))
  do i = 3, 10
    a(i) = a(i) + i
  end do
  !$acc parallel loop collapse(2) present(b(:, 2:4))
  do j = 2, 4
    do i = 1, 6
      b(i, j) = b(i, j)*j
    end do
  end do
  call take(a(3:10), b(:, 2:4))
  call equal('a', sum(a), 12d0 + 52)
  call equal('b', sum(b), 2d0*12 + 2*6*9)
  p => c
  call bring_pointer(p)
  call equal('the target', acc_is_present(c), .true.)
  !$acc serial present(c)
  c(8) = 30
  !$acc end serial
  p(0:) => c
  call acc_update_self(p(7:7))
  call equal('by the pointer', c(8), 30d0)
  call acc_delete(p)
  call equal('gone', acc_is_present(c), want(.false., .true.))
  allocate (h%v(5), source=4d0)
  call acc_copyin(h%v)
  call equal('a member', acc_is_present(h%v(2:5)), .true.)
  call acc_delete(h%v)
  call pass()
end program
