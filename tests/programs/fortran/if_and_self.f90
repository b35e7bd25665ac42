! if and self: regions on the host, data regions that are none, updates that don't happen.
program main
  use check
  implicit none
  integer :: a(10), i, n
  logical :: never
  never = command_argument_count() > 1000
  n = 10
  a = 1
  !$acc parallel loop if(never) copy(a)
  do i = 1, 10
    a(i) = a(i) + 1
  end do
  call equal('on the host', sum(a), 20)
  !$acc parallel loop if(n == 10) copy(a)
  do i = 1, 10
    a(i) = a(i) + 1
  end do
  call equal('on the device', sum(a), 30)
  !$acc data copy(a) if(never)
  a = 5
  !$acc parallel loop copy(a)
  do i = 1, 10
    a(i) = a(i) + 1
  end do
  call equal('no data region', sum(a), 60)
  !$acc end data
  !$acc data copy(a) if(n > 0)
  !$acc parallel loop
  do i = 1, 10
    a(i) = a(i)*2
  end do
  !$acc update self(a) if(never)
  call equal('not updated', sum(a), want(60, 120))
  !$acc update self(a) if(n == 10)
  call equal('updated', sum(a), 120)
  !$acc end data
  !$acc enter data copyin(a) if(never)
  call equal('not entered', acc_is_present(a), want(.false., .true.))
  !$acc enter data copyin(a) if(.not. never)
  call equal('entered', acc_is_present(a), .true.)
  !$acc exit data delete(a) if(never)
  call equal('still there', acc_is_present(a), .true.)
  !$acc exit data delete(a)
  !$acc kernels loop if(never)
  do i = 1, 10
    a(i) = 3
  end do
  call equal('kernels on the host', sum(a), 30)
  call pass()
end program
