! Copies between the host, device memory and devices by c_ptr and by array, of parts and in queues, those of the source's device between devices (3.2.26 to 3.2.30).
! BUILD headers
! BUILD linked
! EXPECT device-memory
program main
  use, intrinsic :: iso_c_binding
  use check
  use openacc
  implicit none
  integer, parameter :: n = 5000
  integer(c_size_t), parameter :: bytes = 4*n
  integer, target :: a(n), b(n), c(n)
  type(c_ptr) :: one, two
  integer :: i, kind, num, other
  kind = acc_get_device_type()
  num = acc_get_device_num(kind)
  other = mod(num + 1, acc_get_num_devices(kind))
  a = [(i, i = 1, n)]
  b = 0
  one = acc_malloc(bytes)
  two = acc_malloc(bytes)
  call acc_memcpy_to_device(one, a, bytes)
  call acc_memcpy_device(two, one, bytes)
  call acc_memcpy_from_device(b, two, bytes)
  call equal('there and back', count(a /= b), 0)
  call acc_memcpy_to_device(at(two, 400), a(1001:1100), 400_c_size_t)
  call acc_memcpy_from_device(b, two, bytes)
  call equal('a part', b(101), 1001)
  call equal('beside', b(100) + b(201), 301)
  call acc_memcpy_device_async(one, two, bytes, 4)
  call acc_memcpy_to_device_async(at(one, 4*(n - 1)), a, 4_c_size_t, 4)
  call acc_memcpy_from_device_async(c, one, bytes, 4)
  call acc_wait(4)
  call equal('in a queue', count(c /= b), 1)
  call equal('the last', c(n), 1)
  ! From device to device, by the arrays that they have there.
  call acc_copyin(a)
  call acc_set_device_num(other, kind)
  call acc_create(b)
  call acc_memcpy_d2d(b, a, bytes, other, num)
  b = 0
  call acc_update_self(b)
  call equal('d2d', count(a /= b), 0)
  call acc_memcpy_d2d_async(b(n/2 + 1:), a, bytes/2, other, num, 3)
  call acc_wait_device(3, num)
  call acc_copyout(b)
  call equal('half of it', count(b(n/2 + 1:) /= a(:n/2)), 0)
  call equal('the other half', count(b(:n/2) /= a(:n/2)), 0)
  call acc_set_device_num(num, kind)
  call acc_delete(a)
  call acc_free(one)
  call acc_free(two)
  call pass()
contains
  type(c_ptr) function at(base, offset)
    type(c_ptr), intent(in) :: base
    integer, intent(in) :: offset
    at = transfer(transfer(base, 0_c_intptr_t) + offset, base)
  end function
end program
