! kernels: scalars and loop variables have the value of the last iteration afterwards, or their old one without any (2.5.3).
program kernels_last_values
  use check
  implicit none
  real(8) :: from(20), to(20), t
  integer :: i, k
  logical :: odd
  from = [(i, i = 1, 20)]
  to = 0
  call last(20, 40d0, 20, 21)
  call last(0, -1d0, 100, 1)
  odd = .false.
  !$acc kernels copy(to)
  do i = 19, 1, -2
    odd = mod(i, 2) == 1
    if (odd) to(i) = -to(i)
  end do
  !$acc end kernels
  call equal("odd", odd, .true.)
  call equal("i", i, -1)
  call equal("to(3)", to(3), -9d0)
  call equal("to(4)", to(4), 12d0)
  call pass()
contains
  subroutine last(n, t_wanted, k_wanted, i_wanted)
    integer, intent(in) :: n, k_wanted, i_wanted
    real(8), intent(in) :: t_wanted
    t = -1
    k = 100
    !$acc kernels copy(to) copyin(from)
    do i = 1, n
      t = from(i)*2
      k = i
      to(i) = t + k
    end do
    !$acc end kernels
    call equal("t", t, t_wanted)
    call equal("k", k, k_wanted)
    call equal("i", i, i_wanted)
  end subroutine
end program
