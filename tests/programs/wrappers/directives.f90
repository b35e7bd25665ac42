! Directives that GCC refuses, in Fortran's free form: built by accord fc they have their effect.
program main
  use openacc
  implicit none
  integer, parameter :: n = 1000
  integer :: a(n), i, the_number_of_the_device_that_is_to_be_used_from_now_on
  integer(8) :: long
  print '(a)', 'no directive: !$acc set device_num(99)'
  if (acc_get_num_devices(acc_get_device_type()) /= 2) stop 1
  !$acc init
  the_number_of_the_device_that_is_to_be_used_from_now_on = 1
  !$acc set device_num(the_number_of_the_device_that_is_to_be_used_from_now_on + 0*the_number_of_the_device_that_is_to_be_used_from_now_on)
  if (number() /= 1) stop 2
  !$acc set device_num(0) if(number() == 0)
  if (number() /= 1) stop 3
  long = 0
  !$ACC SET &
  ! between
  !$ACC&  DEVICE_NUM(long) & ! more
  !$acc   default_async(3)
  if (number() /= 0 .or. acc_get_default_async() /= 3) stop 4
  !$acc set device_num(1)
  !$acc enter data create(a)
  !$acc parallel loop present(a) async(2)
  do i = 1, n
    a(i) = i
  end do
  !$acc update self(a) async(2)
  !$acc set device_num(0)
  !$acc wait(devnum:1:queues:2)
  if (.not. acc_async_test_device(2, 1)) stop 5
  if (a(n) /= n) stop 6
  !$acc wait(devnum:1) async(4) if(a(1) == 1)
  !$acc wait(devnum:1)
  !$acc wait(queues:2,3) async(1)
  if (.not. acc_async_test_all_device(1)) stop 7
  !$acc init device_num(1)
  if (.not. acc_is_present(a)) stop 8
  !$acc shutdown device_num(1)
  !$acc set device_num(1)
  if (acc_is_present(a)) stop 9
  call by_external()
  print '(a)', 'PASS'
contains
  integer function number()
    number = acc_get_device_num(acc_device_current)
  end function
end program

! Without the module's interfaces.
subroutine by_external()
  implicit none
  integer, external :: acc_get_device_num
  !$acc set device_num(0)
  if (acc_get_device_num(-1) /= 0) stop 10
  !$acc set device_num(1)
  if (acc_get_device_num(-1) /= 1) stop 11
end subroutine
