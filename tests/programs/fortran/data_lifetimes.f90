! Structured and dynamic lifetimes together: counters, finalize, copyout at the last release only (2.6.7).
program main
  use check
  implicit none
  integer :: a(8), b(8), i
  a = 1
  b = 1
  !$acc enter data copyin(a)
  !$acc enter data copyin(a)
  !$acc data copy(a)
  !$acc parallel loop
  do i = 1, 8
    a(i) = a(i) + 1
  end do
  !$acc end data
  call equal('still the host''s', a(1), want(1, 2))
  !$acc exit data copyout(a)
  call equal('one reference is left', a(1), want(1, 2))
  call equal('present', acc_is_present(a), .true.)
  !$acc exit data copyout(a)
  call equal('copied out', a(1), 2)
  call equal('gone', acc_is_present(a), want(.false., .true.))
  !$acc exit data copyout(a)
  !$acc enter data create(b)
  !$acc enter data create(b)
  !$acc enter data create(b)
  !$acc exit data delete(b) finalize
  call equal('finalized', acc_is_present(b), want(.false., .true.))
  !$acc data copyin(b)
  !$acc enter data copyin(b)
  !$acc exit data delete(b) finalize
  call equal('held by the region', acc_is_present(b), .true.)
  !$acc end data
  call equal('gone with the region', acc_is_present(b), want(.false., .true.))
  ! A region inside holds what the one around it brought.
  !$acc data copy(a(3:6))
  !$acc data copyin(a(4:5))
  !$acc parallel loop present(a(3:6))
  do i = 3, 6
    a(i) = 50
  end do
  !$acc end data
  call equal('a(4)', a(4), want(2, 50))
  !$acc end data
  call equal('sum', sum(a), 4*2 + 200)
  call pass()
end program
