! A deviceptr clause with an address of another device (2.7.4).
! BUILD headers
! BUILD linked
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/parallel.*is memory of dev0 \(.*acc_error_invalid_argument/
program main
  use, intrinsic :: iso_c_binding
  use openacc
  implicit none
  type(c_ptr) :: d
  integer, pointer :: p(:)
  integer(acc_device_kind) :: kind
  kind = acc_get_device_type()
  call acc_set_device_num(0, kind)
  d = acc_malloc(1000_c_size_t)
  call acc_set_device_num(1, kind)
  call c_f_pointer(d, p, [250])
  call touch(p, 250)
  write (*, '(a)') 'FAIL took an address of another device'
contains
  subroutine touch(x, n)
    integer, intent(in) :: n
    integer :: x(n)
    !$acc parallel deviceptr(x)
    x(1) = 1
    !$acc end parallel
  end subroutine
end program
