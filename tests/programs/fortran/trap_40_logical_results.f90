! Routines that give LOGICAL give 32-bit true or false.
program main
  use check
  implicit none
  integer :: a(10), i
  logical :: both(2)
  a = 0
  call acc_init(acc_device_default)
  both = [acc_async_test(1), acc_async_test_all()]
  call equal('all idle', all(both), .true.)
  call equal('on the host', acc_on_device(acc_device_host), .true.)
  call equal('not elsewhere', acc_on_device(acc_device_nvidia), .false.)
  !$acc parallel loop copy(a) async(1)
  do i = 1, 10
    a(i) = i
  end do
  call acc_wait(1)
  call equal('queue 1 is done', acc_async_test(1), .true.)
  call equal('a is absent', acc_is_present(a), want(.false., .true.))
  call acc_copyin(a)
  call equal('a is present', acc_is_present(a), .true.)
  call equal('a and 4 bytes', acc_is_present(a, 4), .true.)
  call acc_delete(a)
  call equal('a(10)', a(10), 10)
  call pass()
end program
