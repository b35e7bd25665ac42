! async without a value, which other queues wait for, and tests of queues while they work.
program main
  use check
  implicit none
  integer :: a(1000), i
  a = 0
  !$acc enter data copyin(a) async
  !$acc parallel loop present(a) async
  do i = 1, 1000
    a(i) = a(i) + 1
  end do
  !$acc wait(acc_async_noval) async(6)
  !$acc parallel loop present(a) async(6)
  do i = 1, 1000
    a(i) = a(i)*5
  end do
  !$acc update self(a) async(6)
  call acc_wait(6)
  call equal('done', acc_async_test(6), .true.)
  call equal('a', sum(a), 5000)
  !$acc exit data delete(a) async
  call acc_wait_all()
  call equal('all done', acc_async_test_all(), .true.)
  call equal('gone', acc_is_present(a), want(.false., .true.))
  call pass()
end program
