! Data routines that take an address and a number of bytes accept array elements, scalars and variables of any type, by Accord's module as by
! gfortran's (3.2.18 to 3.2.20).
! BUILD headers
program header_elements
  use check
  implicit none
  type pair
    integer :: one, two
  end type
  real(real64) :: a(100), s
  character(8) :: text
  type(pair) :: both
  a = 1
  s = 2
  text = 'abcdefgh'
  both = pair(3, 4)
  call acc_copyin(a(11), 80)
  call equal('elements', acc_is_present(a(11), 80), .true.)
  !$acc parallel present(a(11:20))
  a(12) = 7
  !$acc end parallel
  call acc_update_self(a(12), 8)
  call equal('an element', a(12), 7d0)
  call acc_delete(a(11), 80)
  call acc_copyin(s, 8)
  call acc_update_device(s, 8)
  call acc_update_self_async(s, 8, 1)
  call acc_wait(1)
  call acc_copyout(s, 8)
  call equal('a scalar', s, 2d0)
  call acc_create(text, 8)
  call acc_delete_finalize(text, 8)
  call acc_copyin(both, 8_8)
  call acc_copyout_finalize(both, 8_8)
  call equal('a structure', both%two, 4)
  call acc_copyin(a)
  call acc_delete(a)
  call pass()
end program
