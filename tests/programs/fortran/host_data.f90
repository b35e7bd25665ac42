! host_data gives C code the device's address of a Fortran array.
program main
  use check
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    type(c_ptr) function device_of(p) bind(c, name='acc_deviceptr')
      import
      type(c_ptr), value :: p
    end function
  end interface
  integer, target :: a(20)
  type(c_ptr) :: host, device
  a = 1
  host = c_loc(a)
  device = host
  !$acc data copy(a)
  !$acc host_data use_device(a)
  device = c_loc(a)
  !$acc end host_data
  call equal('the same address', c_associated(device, device_of(host)), .true.)
  !$acc end data
  call equal('device differs', c_associated(device, host), want(.false., .true.))
  call pass()
end program
