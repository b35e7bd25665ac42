! Operations of one queue run in the order of their calls: update, region and update again, many times over, without a wait between (2.16).
! BUILD core
program main
  use check
  implicit none
  integer, parameter :: n = 3000, steps = 25
  integer :: a(n), seen(n, steps), i, k
  a = 0
  seen = -1
  !$acc enter data copyin(a) create(seen) async(4)
  do k = 1, steps
    !$acc parallel loop present(a, seen) async(4)
    do i = 1, n
      a(i) = 2*a(i) + mod(k*i, 3)
      if (a(i) > 100000) a(i) = a(i) - 100000
      seen(i, k) = a(i)
    end do
    !$acc update self(seen(:, k:k)) async(4)
  end do
  !$acc exit data copyout(a) delete(seen) async(4)
  !$acc wait(4)
  block
    integer :: b(n)
    b = 0
    do k = 1, steps
      do i = 1, n
        b(i) = 2*b(i) + mod(k*i, 3)
        if (b(i) > 100000) b(i) = b(i) - 100000
      end do
      call equal('a step as it was', count(seen(:, k) /= b), 0)
    end do
    call equal('the last one', count(a /= b), 0)
  end block
  call pass()
end program
