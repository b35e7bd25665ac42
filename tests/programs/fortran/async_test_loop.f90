! A host that works while a queue does, and asks it now and then (3.2.9): acc_async_test in a do while, with the forms of old programs.
program main
  use check
  implicit none
  integer, parameter :: n = 20000
  real(8) :: a(n)
  integer :: i, k, asked
  integer(8) :: done
  a = 1
  asked = 0
  done = 0
  !$acc enter data copyin(a) async(9)
  do k = 1, 40
    !$acc parallel loop present(a) async(9)
    do i = 1, n
      a(i) = sqrt(a(i)*a(i) + 3)
    end do
  end do
  !$acc update self(a) async(9)
  do while (.not. acc_async_test(9))
    done = done + mod(asked, 7)
    asked = asked + 1
  end do
  call equal('a', nint(a(n)), 11)
  call equal('done is done', acc_async_test(9), .true.)
  call equal('and all', acc_async_test_all(), .true.)
  call equal('a queue that was never used', acc_async_test(77), .true.)
  call equal('asked', asked >= 0 .and. done >= 0, .true.)
  !$acc exit data delete(a)
  call pass()
end program
