! A routine that calls itself. GCC 12's assembler for nvptx takes no aliases, which it makes of such a function.
! BUILD offload=no
module numbers
  implicit none
contains
  recursive integer function fibonacci(n) result(f)
    !$acc routine seq
    integer, intent(in) :: n
    if (n < 2) then
      f = n
    else
      f = fibonacci(n - 1) + fibonacci(n - 2)
    end if
  end function
end module
program main
  use check
  use numbers
  implicit none
  integer :: f(20), i
  !$acc parallel loop copyout(f)
  do i = 1, 20
    f(i) = fibonacci(mod(i, 12))
  end do
  call equal('f(11)', f(11), 89)
  call equal('f(12)', f(12), 0)
  call equal('f(20)', f(20), 21)
  call pass()
end program
