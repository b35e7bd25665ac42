! A non-contiguous actual of a routine arrives as a packed temporary: nothing of the array itself becomes present.
! EXPECT device-memory
program main
  use check
  implicit none
  integer :: b(6, 6)
  b = 1
  call equal('separate', separate(), .true.)
  call acc_copyin(b(2:3, 2:4))
  call equal('b is present', acc_is_present(b), .false.)
  call acc_copyin(b)
  call equal('b is present now', acc_is_present(b), .true.)
  call acc_copyout(b)
  call equal('b(1, 1)', b(1, 1), 1)
  call pass()
end program
