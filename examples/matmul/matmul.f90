! C = A B on one device, then with C's column tiles dealt out to every device; see matmul.c.
! Fortran stores columns together, so here a device gets all of A and its own columns of B and C.
module products
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use openacc
  implicit none
contains
  subroutine multiply_one(a, b, c)
    real(real64), intent(in) :: a(:, :), b(:, :)
    real(real64), intent(out) :: c(:, :)
    real(real64) :: total
    integer :: i, j, k, n
    n = size(a, 1)
    !$acc parallel loop copyin(a, b) copyout(c) private(total)
    do j = 1, n
      do i = 1, n
        total = 0
        do k = 1, n
          total = total + a(i, k) * b(k, j)
        end do
        c(i, j) = total
      end do
    end do
  end subroutine

  ! On the current device, without waiting.
  subroutine multiply_tile(a, b, c, first, last)
    real(real64), intent(in), contiguous :: a(:, :), b(:, :)
    real(real64), intent(inout), contiguous :: c(:, :)
    integer, intent(in) :: first, last
    real(real64) :: total
    integer :: i, j, k, n
    n = size(a, 1)
    !$acc enter data copyin(a, b(:, first:last)) create(c(:, first:last)) async
    !$acc parallel loop present(a, b(:, first:last), c(:, first:last)) private(total) async
    do j = first, last
      do i = 1, n
        total = 0
        do k = 1, n
          total = total + a(i, k) * b(k, j)
        end do
        c(i, j) = total
      end do
    end do
    !$acc exit data copyout(c(:, first:last)) delete(a, b(:, first:last)) async
  end subroutine

  subroutine multiply_all(a, b, c, devices)
    real(real64), intent(in), contiguous :: a(:, :), b(:, :)
    real(real64), intent(inout), contiguous :: c(:, :)
    integer, intent(out) :: devices
    integer(acc_device_kind) :: device_type
    integer :: d, n
    n = size(a, 1)
    device_type = acc_device_nvidia
    if (acc_get_num_devices(device_type) == 0) device_type = acc_get_device_type()
    devices = acc_get_num_devices(device_type)
    do d = 0, devices - 1
      call acc_set_device_num(d, device_type)
      call multiply_tile(a, b, c, d * n / devices + 1, (d + 1) * n / devices)
    end do
    do d = 0, devices - 1
      call acc_set_device_num(d, device_type)
      !$acc wait
    end do
    call acc_set_device_num(0, device_type)
  end subroutine
end module

program main
  use products
  implicit none
  real(real64), allocatable :: a(:, :), b(:, :), want(:, :), got(:, :)
  character(32) :: word
  integer :: i, j, n, status, devices

  n = 400
  if (command_argument_count() > 0) then
    call get_command_argument(1, word)
    read (word, *, iostat=status) n
    if (status /= 0 .or. n < 1) then
      write (*, '(a)') 'usage: matmul-fortran [rows]'
      stop 2
    end if
  end if
  allocate (a(n, n), b(n, n), want(n, n), got(n, n))
  do j = 1, n
    do i = 1, n
      a(i, j) = mod(i + 2 * j, 7) - 3
      b(i, j) = mod(i + j, 5) * 0.5_real64
    end do
  end do
  want = matmul(a, b) ! small integers and halves: exact in any order

  call multiply_one(a, b, got)
  if (any(got /= want)) error stop 'matmul: the product of one device is wrong'
  write (*, '(a,i0)') 'where=one devices=1 rows=', n

  got = 0
  call multiply_all(a, b, got, devices)
  if (any(got /= want)) error stop 'matmul: the product of all devices is wrong'
  write (*, '(a,i0,a,i0)') 'where=all devices=', devices, ' rows=', n
end program
