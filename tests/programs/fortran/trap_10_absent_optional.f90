! Absent OPTIONAL arguments in clauses: NULL with any size.
program main
  use check
  implicit none
  integer :: x(10), s
  x = 1
  s = 5
  call work(x, s)
  call equal('x(10)', x(10), 6)
  call work(x)
  call equal('x(10) again', x(10), 7)
  call work()
  call pass()
contains
  subroutine work(x, s)
    integer, intent(inout), optional :: x(:)
    integer, intent(in), optional :: s
    integer :: i, n
    logical :: has_x, has_s
    has_x = present(x)
    has_s = present(s)
    n = 0
    if (has_x) n = size(x)
    !$acc parallel copy(x) copyin(s)
    do i = 1, n
      if (has_x) then
        if (has_s) then
          x(i) = x(i) + s
        else
          x(i) = x(i) + 1
        end if
      end if
    end do
    !$acc end parallel
  end subroutine
end program
