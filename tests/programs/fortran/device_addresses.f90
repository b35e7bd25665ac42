! An address in device memory says whose it is: no two devices have the same, and none is an address of the program.
! BUILD headers
! BUILD linked
! EXPECT device-memory
program main
  use check
  use openacc
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: n = 5000, blocks = 20
  integer(c_size_t), parameter :: bytes = 4*n
  integer, target :: a(n), b(n)
  integer(acc_device_kind) :: kind
  type(c_ptr) :: block(blocks, 0:1), data(0:1)
  integer :: d, i, k
  integer, pointer :: p(:)
  kind = acc_get_device_type()
  do d = 0, 1
    call acc_set_device_num(d, kind)
    do i = 1, blocks
      block(i, d) = acc_malloc(bytes)
    end do
    call acc_copyin(a)
    data(d) = acc_deviceptr(a)
  end do
  call equal('meet', meet(data(0), data(1)), .false.)
  do i = 1, blocks
    call equal('meet', meet(block(i, 0), data(1)), .false.)
    call equal('meet', meet(block(i, 1), c_loc(b)), .false.)
    do k = 1, blocks
      call equal('meet', meet(block(i, 0), block(k, 1)), .false.)
    end do
  end do
  ! Between two devices' addresses the copy that was meant, whichever device is current.
  do d = 0, 1
    do i = 1, n
      b(i) = i*7 + d
    end do
    call acc_set_device_num(d, kind)
    call acc_memcpy_to_device(block(1, d), b, bytes)
    call acc_memcpy_device(block(2, 1 - d), block(1, d), bytes)
    call acc_set_device_num(1 - d, kind)
    call c_f_pointer(block(2, 1 - d), p, [n])
    call equal('wrong', wrong(p, d), 0)
  end do
  call pass()
contains
  integer function wrong(x, d)
    integer :: x(n)
    integer, intent(in) :: d
    integer :: i, count
    count = 0
    !$acc parallel loop deviceptr(x) reduction(+:count)
    do i = 1, n
      if (x(i) /= i*7 + d) count = count + 1
    end do
    wrong = count
  end function

  logical function meet(one, other)
    type(c_ptr), intent(in) :: one, other
    integer(c_intptr_t) :: p, q
    p = transfer(one, p)
    q = transfer(other, q)
    meet = p < q + bytes .and. q < p + bytes
  end function
end program
