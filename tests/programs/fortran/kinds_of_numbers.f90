! Integers, logicals and reals of every kind that devices have, in one region and as arrays.
program main
  use check
  implicit none
  integer(1) :: i1(33)
  integer(2) :: i2(33)
  integer(8) :: i8(33)
  logical(1) :: l1(33)
  logical(2) :: l2(33)
  logical(8) :: l8(33)
  real(4) :: r4(33)
  real(8) :: r8(33)
  integer :: i
  logical(1) :: one
  integer(2) :: short
  i1 = 0; i2 = 0; i8 = 0
  short = 3
  one = .true.
  !$acc parallel loop copy(i1, i2, i8) copyout(l1, l2, l8, r4, r8)
  do i = 1, 33
    i1(i) = int(i - 17, 1)
    i2(i) = int(i*100, 2)*short
    i8(i) = shiftl(1_8, i + 20) - 1
    l1(i) = mod(i, 2) == 0 .and. one
    l2(i) = mod(i, 3) == 0
    l8(i) = .not. l1(i)
    r4(i) = sqrt(real(i))
    r8(i) = sin(real(i, 8))
  end do
  do i = 1, 33
    call equal('i1', int(i1(i)), i - 17)
    call equal('i2', int(i2(i)), 300*i)
    call equal('i8', i8(i), 2_8**(i + 20) - 1)
    call equal('l1', logical(l1(i)), mod(i, 2) == 0)
    call equal('l2', logical(l2(i)), mod(i, 3) == 0)
    call equal('l8', logical(l8(i)), mod(i, 2) /= 0)
    call equal('r4', abs(r4(i) - sqrt(real(i))) < 1e-5, .true.)
    call equal('r8', abs(r8(i) - sin(real(i, 8))) < 1d-12, .true.)
  end do
  call pass()
end program
