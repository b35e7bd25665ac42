! Dummy arguments that are allocatable or pointers: GCC maps data, descriptor, and a pointer to the descriptor.
! BUILD core
module dummies
  implicit none
contains
  subroutine by_copy(a)
    integer, allocatable, intent(inout) :: a(:)
    integer :: i
    !$acc parallel loop copy(a)
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + i
    end do
  end subroutine
  subroutine implicitly(a)
    integer, allocatable, intent(inout) :: a(:)
    integer :: i
    !$acc parallel loop
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + i
    end do
  end subroutine
  subroutine by_kernels(a)
    integer, allocatable, intent(inout) :: a(:)
    integer :: i
    !$acc kernels
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + i
    end do
    !$acc end kernels
  end subroutine
  subroutine by_present(a)
    integer, allocatable, intent(inout) :: a(:)
    integer :: i
    !$acc serial present(a)
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + i
    end do
    !$acc end serial
  end subroutine
  subroutine by_default_present(a)
    integer, allocatable, intent(inout) :: a(:)
    integer :: i
    !$acc parallel loop default(present)
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + i
    end do
  end subroutine
  subroutine in_data(a)
    integer, allocatable, intent(inout) :: a(:)
    integer :: i
    !$acc data copy(a)
    !$acc parallel loop
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + i
    end do
    call by_present(a)
    !$acc end data
  end subroutine
  subroutine entered(a)
    integer, allocatable, intent(inout) :: a(:)
    integer :: i
    !$acc enter data copyin(a)
    call by_present(a)
    call by_default_present(a)
    !$acc parallel loop async(2)
    do i = lbound(a, 1), ubound(a, 1)
      a(i) = a(i) + i
    end do
    !$acc update self(a) async(2)
    !$acc wait(2)
    !$acc exit data delete(a)
  end subroutine
  subroutine pointers(p, q)
    integer, pointer, intent(inout) :: p(:)
    integer, pointer, intent(in) :: q(:, :)
    integer :: i, j
    !$acc parallel loop copy(p) copyin(q)
    do i = 1, size(p)
      do j = 1, size(q, 2)
        p(i) = p(i) + q(i, j)
      end do
    end do
  end subroutine
end module
program main
  use check
  use dummies
  implicit none
  integer, allocatable :: a(:)
  integer, pointer :: p(:), q(:, :)
  integer :: i, j
  allocate (a(-3:40), p(7), q(7, 3))
  a = 0
  call by_copy(a)
  call implicitly(a)
  call by_kernels(a)
  call in_data(a)
  call entered(a)
  !$acc data copy(a)
  call by_present(a)
  call by_default_present(a)
  !$acc end data
  do i = -3, 40
    call equal('a(i)', a(i), 10*i)
  end do
  p = 1
  do j = 1, 3
    do i = 1, 7
      q(i, j) = 100*j + i
    end do
  end do
  call pointers(p, q)
  do i = 1, 7
    call equal('p(i)', p(i), 601 + 3*i)
  end do
  ! Another array with other bounds for the same name.
  deallocate (a)
  allocate (a(5))
  a = 1
  call entered(a)
  call by_copy(a)
  call equal('a(5)', a(5), 21)
  call pass()
end program
