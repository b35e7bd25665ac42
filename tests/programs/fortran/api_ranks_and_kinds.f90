! The data routines for arrays of every rank from 0 to 7 and of every type and kind: the right bytes are present, updated and copied out.
program main
  use check
  implicit none
  type mixed
    character(3) :: tag
    real(8) :: x
    integer(1) :: small
  end type
  integer(1) :: i1(3)
  integer(2) :: i2(3, 2)
  integer(4) :: i4
  integer(8) :: i8(2, 2, 2)
  real(4) :: r4(2, 1, 3, 1)
  real(8) :: r8(2, 2, 1, 2, 2)
  real(10) :: r10(3)
  real(16) :: r16(2)
  complex(4) :: c4(2, 2, 1, 1, 1, 2)
  complex(8) :: c8(1, 2, 1, 2, 1, 2, 2)
  logical(1) :: l1(5)
  logical(8) :: l8(2)
  character :: ch(4)
  character(7) :: words(2, 2)
  type(mixed) :: m(3)
  i1 = 1; i2 = 2; i4 = 4; i8 = 2_8**40; r4 = 0.5; r8 = 0.25d0; r10 = 3; r16 = 7
  c4 = (1, 2); c8 = (3, 4); l1 = .true.; l8 = .false.; ch = 'a'; words = 'seven'; m = mixed('abc', 1.5d0, 9_1)
  call acc_copyin(i1)
  call acc_copyin(i2)
  call acc_copyin(i4)
  call acc_copyin(i8)
  call acc_copyin(r4)
  call acc_copyin(r8)
  call acc_copyin(r10)
  call acc_copyin(r16)
  call acc_copyin(c4)
  call acc_copyin(c8)
  call acc_copyin(l1)
  call acc_copyin(l8)
  call acc_copyin(ch)
  call acc_copyin(words)
  call acc_copyin(m)
  i1 = 0; i2 = 0; i4 = 0; i8 = 0; r4 = 0; r8 = 0; r10 = 0; r16 = 0
  c4 = 0; c8 = 0; l1 = .false.; l8 = .true.; ch = '-'; words = '-'; m = mixed('---', 0d0, 0_1)
  call equal('all are present', acc_is_present(i1) .and. acc_is_present(i2) .and. acc_is_present(i4) .and. &
    acc_is_present(i8) .and. acc_is_present(r4) .and. acc_is_present(r8) .and. acc_is_present(r10) .and. &
    acc_is_present(r16) .and. acc_is_present(c4) .and. acc_is_present(c8) .and. acc_is_present(l1) .and. &
    acc_is_present(l8) .and. acc_is_present(ch) .and. acc_is_present(words) .and. acc_is_present(m), .true.)
  if (.not. separate()) then
    call pass()
    stop
  end if
  call acc_update_self(i1)
  call acc_update_self(i2)
  call acc_update_self(i4)
  call acc_copyout(i8)
  call acc_copyout(r4)
  call acc_copyout(r8)
  call acc_copyout(r10)
  call acc_copyout(r16)
  call acc_update_self(c4)
  call acc_copyout(c8)
  call acc_update_self(l1)
  call acc_copyout(l8)
  call acc_copyout(ch)
  call acc_update_self(words)
  call acc_copyout(m)
  call equal('integer(1)', count(i1 == 1), 3)
  call equal('integer(2)', count(i2 == 2), 6)
  call equal('integer(4)', i4, 4)
  call equal('integer(8)', count(i8 == 2_8**40), 8)
  call equal('real(4)', count(r4 == 0.5), 6)
  call equal('real(8)', count(r8 == 0.25d0), 16)
  call equal('real(10)', count(r10 == 3), 3)
  call equal('real(16)', count(r16 == 7), 2)
  call equal('complex(4)', count(c4 == (1, 2)), 8)
  call equal('complex(8)', count(c8 == (3, 4)), 16)
  call equal('logical(1)', count(l1), 5)
  call equal('logical(8)', count(l8), 0)
  call equal('character', count(ch == 'a'), 4)
  call equal('character(7)', count(words == 'seven'), 4)
  call equal('a type', count(m%tag == 'abc' .and. m%small == 9_1), 3)
  i4 = 5
  call acc_update_device(i4)
  i4 = 6
  call acc_delete(i1)
  call acc_delete(i2)
  call acc_copyout(i4)
  call acc_delete(c4)
  call acc_delete(l1)
  call acc_delete(words)
  call equal('updated', i4, 5)
  call equal('none is left', acc_is_present(i1) .or. acc_is_present(c4) .or. acc_is_present(words), .false.)
  call pass()
end program
