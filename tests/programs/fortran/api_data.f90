! The data routines in their three Fortran forms: array, 32-bit and 64-bit length.
! BUILD core
program main
  use check
  implicit none
  integer, parameter :: n = 40, bytes = 4*n
  integer(int64), parameter :: long_bytes = 4*n
  integer :: a(n), i
  a = 1
  call acc_copyin(a)
  call acc_present_or_copyin(a)
  call acc_pcopyin(a)
  call acc_copyin(a, bytes)
  call acc_copyin(a, long_bytes)
  call acc_present_or_copyin(a, bytes)
  call acc_present_or_copyin(a, long_bytes)
  call acc_create(a)
  call acc_present_or_create(a)
  call acc_pcreate(a)
  call acc_create(a, bytes)
  call acc_create(a, long_bytes)
  call acc_present_or_create(a, bytes)
  call acc_present_or_create(a, long_bytes) ! counter 14
  call add(1)
  call acc_update_self(a)
  call all_are('update_self', 2)
  a = 5
  call acc_update_device(a)
  call add(1)
  call acc_update_self(a, bytes)
  call all_are('update_self 32', 6)
  a = 7
  call acc_update_device(a, bytes)
  call add(1)
  call acc_update_self(a, long_bytes)
  call all_are('update_self 64', 8)
  a = 9
  call acc_update_device(a, long_bytes)
  call acc_delete(a)
  call acc_delete(a, bytes)
  call acc_delete(a, long_bytes)
  call acc_copyout(a)
  call acc_copyout(a, bytes)
  call acc_copyout(a, long_bytes)
  call equal('present', acc_is_present(a), .true.)
  call equal('present 32', acc_is_present(a, bytes), .true.)
  call equal('present 64', acc_is_present(a, long_bytes), .true.)
  call add(1)
  call acc_copyout_finalize(a)
  call all_are('copyout_finalize', 10)
  call equal('absent', acc_is_present(a), want(.false., .true.))
  call acc_copyin(a)
  call acc_copyin(a)
  call add(1)
  call acc_copyout_finalize(a, bytes)
  call all_are('copyout_finalize 32', 11)
  call acc_copyin(a)
  call add(1)
  call acc_copyout_finalize(a, long_bytes)
  call all_are('copyout_finalize 64', 12)
  call acc_create(a)
  call acc_delete_finalize(a)
  call acc_create(a)
  call acc_create(a)
  call acc_delete_finalize(a, bytes)
  call acc_create(a)
  call acc_delete_finalize(a, long_bytes)
  call equal('absent at the end', acc_is_present(a), want(.false., .true.))
  call pass()
contains
  subroutine add(k)
    integer, intent(in) :: k
    integer :: i
    !$acc parallel loop present(a)
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
