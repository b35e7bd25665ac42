! The asynchronous data routines in their Fortran forms.
program main
  use check
  implicit none
  integer, parameter :: n = 40, bytes = 4*n
  integer(int64), parameter :: long_bytes = 4*n
  integer(acc_handle_kind), parameter :: q = 3
  integer :: a(n), i
  a = 1
  call acc_copyin_async(a, q)
  call acc_copyin_async(a, bytes, q)
  call acc_copyin_async(a, long_bytes, q)
  call acc_create_async(a, q)
  call acc_create_async(a, bytes, q)
  call acc_create_async(a, long_bytes, q)
  call add(1)
  call acc_update_self_async(a, q)
  call acc_wait(3)
  call all_are('update_self', 2)
  a = 3
  call acc_update_device_async(a, q)
  call add(1)
  call acc_update_self_async(a, bytes, q)
  call acc_wait(3)
  call all_are('update_self 32', 4)
  a = 5
  call acc_update_device_async(a, bytes, q)
  call add(1)
  call acc_update_self_async(a, long_bytes, q)
  call acc_wait(3)
  call all_are('update_self 64', 6)
  a = 7
  call acc_update_device_async(a, long_bytes, q)
  call add(1)
  call acc_delete_async(a, q)
  call acc_delete_async(a, bytes, q)
  call acc_delete_async(a, long_bytes, q)
  call acc_copyout_async(a, q)
  call acc_copyout_async(a, bytes, q)
  call equal('present', acc_is_present(a), .true.)
  call acc_copyout_async(a, long_bytes, q)
  call acc_wait_all_async(4)
  call acc_wait_async(4, 5)
  call acc_wait(5)
  call acc_wait_all()
  call all_are('copyout', 8)
  call equal('absent', acc_is_present(a), want(.false., .true.))
  call equal('tested', acc_async_test(3) .and. acc_async_test_all(), .true.)
  call acc_async_wait(3)
  call acc_async_wait_all()
  call pass()
contains
  subroutine add(k)
    integer, intent(in) :: k
    integer :: i
    !$acc parallel loop present(a) async(3)
    do i = 1, n
      a(i) = a(i) + k
    end do
  end subroutine
  subroutine all_are(what, wanted)
    character(*), intent(in) :: what
    integer, intent(in) :: wanted
    do i = 1, n
      call equal(what, a(i), wanted)
    end do
  end subroutine
end program
