! Arrays that are allocated, brought, used in a queue, taken home and deallocated, round after round: an address comes back while its
! last use may still be under way.
program main
  use check
  implicit none
  integer, parameter :: rounds = 30
  real, allocatable :: a(:), b(:, :)
  real :: total(rounds)
  integer :: i, j, k, n
  total = 0
  !$acc enter data copyin(total)
  do k = 1, rounds
    n = 100 + 37*mod(k, 5)
    allocate (a(n), b(n, 3))
    a = k
    b = 1
    !$acc enter data copyin(a, b) async(1)
    !$acc parallel loop collapse(2) present(a, b) async(1)
    do j = 1, 3
      do i = 1, n
        b(i, j) = b(i, j)*a(i) + j
      end do
    end do
    !$acc serial present(b, total) async(1)
    total(k) = b(1, 1) + b(n, 3)
    !$acc end serial
    !$acc exit data delete(a) copyout(b) async(1)
    !$acc wait(1)
    call equal('b(n, 2)', b(n, 2), k + 2.0)
    deallocate (a, b)
  end do
  !$acc exit data copyout(total)
  do k = 1, rounds
    call equal('total', total(k), 2.0*k + 4)
  end do
  call pass()
end program
