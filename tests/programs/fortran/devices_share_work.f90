! One host, no threads: a matrix product over all devices, a block of columns each, in queues, and the blocks collected in the order in
! which they are done.
program main
  use check
  implicit none
  integer, parameter :: n = 48
  real(8) :: a(n, n), b(n, n), c(n, n), s
  integer :: kind, before, count_, d, i, j, k, left, waited
  logical, allocatable :: done(:)
  kind = acc_get_device_type()
  before = acc_get_device_num(kind)
  count_ = acc_get_num_devices(kind)
  allocate (done(0:count_ - 1))
  done = .false.
  do j = 1, n
    do i = 1, n
      a(i, j) = mod(i + 2*j, 7)
      b(i, j) = mod(3*i + j, 5)
    end do
  end do
  c = -1
  do d = 0, count_ - 1
    call acc_set_device_num(d, kind)
    associate (from => d*n/count_ + 1, upto => (d + 1)*n/count_)
      !$acc enter data copyin(a, b(:, from:upto)) create(c(:, from:upto)) async(2)
      !$acc parallel loop collapse(2) present(a, b(:, from:upto), c(:, from:upto)) private(s) async(2)
      do j = from, upto
        do i = 1, n
          s = 0
          do k = 1, n
            s = s + a(i, k)*b(k, j)
          end do
          c(i, j) = s
        end do
      end do
      !$acc update self(c(:, from:upto)) async(2)
      !$acc exit data delete(a, b(:, from:upto), c(:, from:upto)) async(2)
    end associate
  end do
  left = count_
  waited = 0
  do while (left > 0)
    waited = waited + 1
    do d = 0, count_ - 1
      if (done(d)) cycle
      call acc_set_device_num(d, kind)
      if (waited > 100000) call acc_wait(2)
      done(d) = acc_async_test(2)
      if (done(d)) left = left - 1
    end do
  end do
  call acc_set_device_num(before, kind)
  do j = 1, n
    do i = 1, n
      call equal('c', c(i, j), dot_product(a(i, :), b(:, j)))
    end do
  end do
  call pass()
end program
