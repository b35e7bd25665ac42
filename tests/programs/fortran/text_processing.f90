! Strings in regions: len_trim, index, comparison, substrings of array elements, and concatenation.
program main
  use check
  implicit none
  character(16) :: lines(6), upper(6)
  integer :: lengths(6), places(6), i, k, c
  logical :: less(6)
  lines = [character(16) :: 'hello world', 'a', '', 'fortran 2018', 'acc parallel', 'zebra']
  !$acc parallel loop copyin(lines) copyout(lengths, places, upper, less) private(c)
  do i = 1, 6
    lengths(i) = len_trim(lines(i))
    places(i) = index(lines(i), 'r')
    upper(i) = lines(i)
    do k = 1, len(upper)
      c = iachar(upper(i)(k:k))
      if (c >= iachar('a') .and. c <= iachar('z')) upper(i)(k:k) = achar(c - 32)
    end do
    less(i) = lines(i) < 'g'
  end do
  do i = 1, 6
    call equal('length', lengths(i), len_trim(lines(i)))
    call equal('place', places(i), index(lines(i), 'r'))
    call equal('less', less(i), lines(i) < 'g')
  end do
  call equal('upper', upper(4) == 'FORTRAN 2018', .true.)
  call pass()
end program
