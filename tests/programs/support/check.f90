! What every Fortran program needs to check itself: the first wrong value ends it with status 1.
module check
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use openacc
  implicit none
  integer, private :: known = -1
  interface equal
    module procedure equal_integer, equal_long, equal_real, equal_double, equal_logical
  end interface
  interface want
    module procedure want_integer, want_logical, want_double
  end interface
contains
  subroutine failed(what)
    character(*), intent(in) :: what
    write (*, '(2a)') 'FAIL ', what
    flush (6)
    stop 1
  end subroutine

  subroutine equal_integer(what, got, wanted)
    character(*), intent(in) :: what
    integer, intent(in) :: got, wanted
    if (got == wanted) return
    write (*, '(3a,i0,a,i0)') 'FAIL ', what, ' is ', got, ', expected ', wanted
    flush (6)
    stop 1
  end subroutine

  subroutine equal_long(what, got, wanted)
    character(*), intent(in) :: what
    integer(int64), intent(in) :: got, wanted
    if (got == wanted) return
    write (*, '(3a,i0,a,i0)') 'FAIL ', what, ' is ', got, ', expected ', wanted
    flush (6)
    stop 1
  end subroutine

  subroutine equal_real(what, got, wanted)
    character(*), intent(in) :: what
    real, intent(in) :: got, wanted
    if (got == wanted) return
    write (*, '(3a,g0,a,g0)') 'FAIL ', what, ' is ', got, ', expected ', wanted
    flush (6)
    stop 1
  end subroutine

  subroutine equal_double(what, got, wanted)
    character(*), intent(in) :: what
    real(real64), intent(in) :: got, wanted
    if (got == wanted) return
    write (*, '(3a,g0,a,g0)') 'FAIL ', what, ' is ', got, ', expected ', wanted
    flush (6)
    stop 1
  end subroutine

  subroutine equal_logical(what, got, wanted)
    character(*), intent(in) :: what
    logical, intent(in) :: got, wanted
    if (got .eqv. wanted) return
    write (*, '(3a,l1,a,l1)') 'FAIL ', what, ' is ', got, ', expected ', wanted
    flush (6)
    stop 1
  end subroutine

  ! Whether the device's memory is its own. Where the tests know that it must be, anything else is a failure.
  logical function separate()
    integer :: x, y, status
    character(8) :: must
    if (known < 0) then
      x = 1
      y = 0
      !$acc enter data copyin(x)
      x = 2
      !$acc parallel copyout(y) present(x)
      y = x
      !$acc end parallel
      !$acc exit data delete(x)
      known = 0
      if (y == 1) known = 1
      call get_environment_variable('ACCORD_TEST_SEPARATE', must, status=status)
      if (status == 0 .and. must == '1' .and. known == 0) call failed('device memory is separate from the host')
    end if
    separate = known == 1
  end function

  integer function want_integer(if_separate, if_shared)
    integer, intent(in) :: if_separate, if_shared
    want_integer = merge(if_separate, if_shared, separate())
  end function

  real(real64) function want_double(if_separate, if_shared)
    real(real64), intent(in) :: if_separate, if_shared
    want_double = merge(if_separate, if_shared, separate())
  end function

  logical function want_logical(if_separate, if_shared)
    logical, intent(in) :: if_separate, if_shared
    want_logical = merge(if_separate, if_shared, separate())
  end function

  subroutine pass()
    if (separate()) known = 1 ! on a device that is what it should be
    write (*, '(a)') 'PASS'
  end subroutine
end module
