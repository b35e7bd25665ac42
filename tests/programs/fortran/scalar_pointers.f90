! Scalars that are allocatable or pointers, as locals and as dummy arguments.
module scalars
  implicit none
contains
  subroutine by_clause(a, p)
    integer, allocatable, intent(inout) :: a
    real(8), pointer, intent(inout) :: p
    !$acc parallel copy(a, p)
    a = a + 1
    p = p*2
    !$acc end parallel
  end subroutine
  subroutine entered(a, p)
    integer, allocatable, intent(inout) :: a
    real(8), pointer, intent(inout) :: p
    !$acc enter data copyin(a, p)
    !$acc parallel present(a, p)
    a = a + 1
    p = p*2
    !$acc end parallel
    !$acc serial default(present) present(a)
    a = a + 1
    !$acc end serial
    !$acc update self(a)
    !$acc exit data delete(a) copyout(p)
  end subroutine
  subroutine in_data(a, p)
    integer, allocatable, intent(inout) :: a
    real(8), pointer, intent(inout) :: p
    !$acc data copy(a, p)
    !$acc parallel
    a = a + 1
    p = p*2
    !$acc end parallel
    !$acc end data
  end subroutine
end module
program main
  use check
  use scalars
  implicit none
  integer, allocatable :: a
  real(8), pointer :: p
  real(8), target :: t
  allocate (a)
  a = 1
  t = 1
  p => t
  !$acc parallel copy(a, p)
  a = a + 1
  p = p*2
  !$acc end parallel
  call equal('a', a, 2)
  call equal('t', t, 2d0)
  call by_clause(a, p)
  call equal('a by clause', a, 3)
  call equal('t by clause', t, 4d0)
  call entered(a, p)
  call equal('a entered', a, 5)
  call equal('t entered', t, 8d0)
  call in_data(a, p)
  call equal('a in data', a, 6)
  call equal('t in data', t, 16d0)
  !$acc enter data copyin(a)
  !$acc serial present(a)
  a = a + 10
  !$acc end serial
  !$acc exit data copyout(a)
  call equal('a at last', a, 16)
  call pass()
end program
