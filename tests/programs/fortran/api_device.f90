! Device routines in their Fortran forms.
program main
  use check
  implicit none
  integer(acc_device_kind) :: device_type
  integer :: d, n, x
  call equal('version', openacc_version, 201711)
  call equal('no radeon', acc_get_num_devices(acc_device_radeon), 0)
  call acc_init(acc_device_default)
  device_type = acc_get_device_type()
  n = acc_get_num_devices(device_type)
  if (n < 1) call failed('a device')
  do d = n - 1, 0, -1
    call acc_set_device_num(d, device_type)
    call equal('device number', acc_get_device_num(device_type), d)
    x = d
    !$acc parallel copy(x)
    x = x + 10
    !$acc end parallel
    call equal('x', x, d + 10)
  end do
  call acc_set_device_type(acc_device_host)
  call equal('host', int(acc_get_device_type()), int(acc_device_host))
  call acc_set_device_type(device_type)
  call acc_shutdown(device_type)
  call acc_init(device_type)
  x = 1
  !$acc parallel copy(x)
  x = 2
  !$acc end parallel
  call equal('x after a new start', x, 2)
  call acc_shutdown(device_type)
  call pass()
end program
