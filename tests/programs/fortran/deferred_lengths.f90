! Characters of deferred and assumed length: scalars, arrays and dummies, allocated again with another length. GCC 12 cannot compile
! a dummy argument that is character(:), allocatable in a compute construct.
module words
  implicit none
contains
  subroutine upper(s)
    character(*), intent(inout) :: s
    integer :: i
    !$acc parallel loop copy(s)
    do i = 1, len(s)
      if (s(i:i) >= 'a' .and. s(i:i) <= 'z') s(i:i) = achar(iachar(s(i:i)) - 32)
    end do
  end subroutine
  subroutine ends(list, last)
    character(*), intent(in) :: list(:)
    character, intent(out) :: last(:)
    integer :: i
    !$acc parallel loop copyin(list) copyout(last)
    do i = 1, size(list)
      last(i) = list(i) (len(list):len(list))
    end do
  end subroutine
  integer function vowels(s) result(n)
    character(*), intent(in) :: s
    integer :: i
    n = 0
    !$acc parallel loop reduction(+:n) copyin(s)
    do i = 1, len(s)
      if (index('aeiou', s(i:i)) > 0) n = n + 1
    end do
  end function
end module
program main
  use check
  use words
  implicit none
  character(:), allocatable :: s, t
  character(5) :: list(4)
  character :: last(4)
  integer :: k
  s = 'the first one'
  call upper(s)
  if (s /= 'THE FIRST ONE') call failed('upper '//s)
  call upper(s(5:5))
  list = ['alpha', 'bravo', 'cargo', 'delta']
  call ends(list, last)
  if (any(last /= ['a', 'o', 'o', 'a'])) call failed('ends')
  call ends(list(:) (2:3), last)
  if (any(last /= ['p', 'a', 'r', 'l'])) call failed('ends of substrings')
  do k = 1, 4
    t = repeat('ae z', 10*k)
    call equal('vowels', vowels(t), 20*k)
  end do
  t = t//'o'
  !$acc enter data copyin(t)
  !$acc serial present(t)
  t(1:1) = 'x'
  t(len(t):len(t)) = 'q'
  !$acc end serial
  !$acc exit data copyout(t)
  if (t(1:4) /= 'xe z' .or. t(161:161) /= 'q') call failed('t')
  call pass()
end program
