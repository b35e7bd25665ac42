! Device memory, mappings and addresses by the routines that gfortran has interfaces for from GCC 14 on.
! acc_hostptr is not among them here: GCC 14 and 15 drop its result when they optimize.
! BUILD gcc=14
! EXPECT device-memory
program main
  use check
  use openacc
  use iso_c_binding
  implicit none
  integer, parameter :: n = 100
  real, target :: a(n), b(n)
  type(c_ptr) :: device, found
  integer(c_size_t) :: bytes
  integer :: i
  bytes = n * 4
  device = acc_malloc(bytes)
  call equal('allocated', c_associated(device), .true.)
  a = [(real(i), i = 1, n)]
  b = 0
  call acc_memcpy_to_device(device, a, bytes)
  call acc_map_data(b, device, bytes)
  call equal('present', acc_is_present(b), .true.)
  found = acc_deviceptr(b)
  call equal('deviceptr', c_associated(found, device), .true.)
  !$acc parallel loop present(b)
  do i = 1, n
    b(i) = b(i) + 1
  end do
  a = 0
  call acc_memcpy_from_device(a, device, bytes)
  call equal('a(7)', a(7), 8.0)
  b = 5
  call acc_memcpy_to_device_async(device, b, bytes, 1)
  call acc_memcpy_from_device_async(a, device, bytes, 1)
  call acc_wait(1)
  call equal('a(100)', a(n), 5.0)
  call acc_unmap_data(b)
  call equal('unmapped', .not. acc_is_present(b), .true.)
  call acc_free(device)
  call pass()
end program
