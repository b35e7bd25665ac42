! Data routines that are declared external: an address, a number of bytes, and a queue where it is one (3.2.18 to 3.2.20, 3.2.25).
! BUILD linked
program external_data_routines
  use check, only: equal, pass, real64
  implicit none
  external :: acc_copyin, acc_create, acc_copyout, acc_copyout_finalize, acc_delete, acc_delete_finalize, acc_update_device, &
      acc_update_self, acc_copyin_async, acc_create_async, acc_copyout_async, acc_copyout_finalize_async, acc_delete_async, &
      acc_delete_finalize_async, acc_update_device_async, acc_update_self_async, acc_wait, acc_pcopyin, acc_pcreate, &
      acc_present_or_copyin, acc_present_or_create
  logical, external :: acc_is_present
  integer, parameter :: n = 100
  real(real64) :: a(n)
  a = 1
  call acc_copyin(a, 8 * n)
  call equal('present', acc_is_present(a, 8 * n), .true.)
  call twice(a)
  call acc_update_self(a, 8 * n)
  call equal('to the host', a(n), 2d0)
  a = 5
  call acc_update_device(a, 8 * n)
  call acc_pcopyin(a, 8 * n)
  call acc_present_or_copyin(a, 8 * n)
  call acc_delete(a, 8 * n)
  call acc_delete_finalize(a, 8 * n)
  call equal('absent', acc_is_present(a, 8 * n), .false.)
  call acc_create(a, 8 * n)
  call acc_pcreate(a, 8 * n)
  call acc_present_or_create(a, 8 * n)
  call acc_update_device(a, 8 * n)
  call twice(a)
  call acc_copyout_finalize(a, 8 * n)
  call equal('copied out', a(1), 10d0)
  call acc_copyin(a, 8 * n)
  call twice(a)
  call acc_copyout(a, 8 * n)
  call equal('copied out at last', a(2), 20d0)

  call acc_copyin_async(a, 8 * n, 1)
  call acc_update_device_async(a, 8 * n, 1)
  call acc_update_self_async(a, 8 * n, 1)
  call acc_wait(1)
  call twice(a)
  call acc_copyout_async(a, 8 * n, 1)
  call acc_wait(1)
  call equal('by a queue', a(n), 40d0)
  call acc_create_async(a, 8 * n, 1)
  call acc_delete_async(a, 8 * n, 1)
  call acc_copyin_async(a, 8 * n, 1)
  call acc_delete_finalize_async(a, 8 * n, 1)
  call acc_copyin_async(a, 8 * n, 1)
  call acc_copyout_finalize_async(a, 8 * n, 1)
  call acc_wait(1)
  call equal('absent in the end', acc_is_present(a, 8 * n), .false.)
  call pass()
contains
  subroutine twice(x)
    real(real64), intent(inout) :: x(n)
    integer :: i
    !$acc parallel loop present(x)
    do i = 1, n
      x(i) = 2 * x(i)
    end do
  end subroutine
end program
