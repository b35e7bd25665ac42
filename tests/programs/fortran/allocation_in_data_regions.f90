! allocate, deallocate and move_alloc while other arrays are in data regions: addresses change hands between what is present and what
! is not, and what moved is found under its new name.
program main
  use check
  implicit none
  integer, parameter :: n = 3000
  real(8), allocatable :: kept(:), a(:), b(:), c(:)
  integer :: i, k
  allocate (kept(n))
  kept = 1
  !$acc data copy(kept)
  do k = 1, 6
    allocate (a(n + k))
    a = k
    !$acc data copyin(a)
    !$acc parallel loop
    do i = 1, n
      kept(i) = kept(i) + a(i)
    end do
    !$acc end data
    deallocate (a)
    allocate (b(n + k))
    b = 10
    !$acc parallel loop copyin(b)
    do i = 1, n
      kept(i) = kept(i) + b(i)
    end do
    deallocate (b)
  end do
  allocate (a(0:n))
  a = 7
  !$acc enter data copyin(a)
  call move_alloc(a, b)
  call equal('it has moved', allocated(a), .false.)
  call equal('and is present', acc_is_present(b), .true.)
  !$acc parallel loop present(b)
  do i = 0, n
    b(i) = b(i) + i
  end do
  allocate (a(5))
  a = 2
  !$acc parallel loop copy(a) present(b)
  do i = 1, 5
    a(i) = a(i)*b(i)
  end do
  call move_alloc(from=b, to=c)
  !$acc exit data copyout(c)
  call equal('a', sum(a), 2*(5*7d0 + 15))
  call equal('c', c(n), 7d0 + n)
  call equal('lower bound', lbound(c, 1), 0)
  deallocate (c)
  !$acc end data
  call equal('kept', kept(n), 1d0 + 21 + 60)
  call pass()
end program
