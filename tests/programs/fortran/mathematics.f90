! Intrinsic functions in regions, of both precisions, beside what the host computes.
program main
  use check
  implicit none
  integer, parameter :: n = 25
  real(8) :: x(n), d(n, 16)
  real(4) :: f(n, 8)
  integer :: k(n, 8), i
  x = [(0.037d0*i, i = 1, n)]
  !$acc parallel loop copyin(x) copyout(d, f, k)
  do i = 1, n
    d(i, :) = [sin(x(i)), cos(x(i)), tan(x(i)), asin(x(i)), acos(x(i)), atan2(x(i), 2d0), exp(x(i)), log(x(i)), &
      log10(x(i)), sqrt(x(i)), sinh(x(i)), tanh(x(i)), x(i)**3.5d0, gamma(x(i)), erf(x(i)), hypot(x(i), 3d0)]
    f(i, :) = [sin(real(x(i))), exp(real(x(i))), sqrt(real(x(i))), real(x(i))**2, abs(-real(x(i))), aint(10*real(x(i))), &
      mod(7.0, real(x(i)) + 1), sign(2.0, real(x(i)) - 0.5)]
    k(i, :) = [nint(10*x(i)), floor(-10*x(i)), ceiling(10*x(i)), modulo(-i, 7), popcnt(i), leadz(i), ishft(i, 3), ibset(i, 10)]
  end do
  do i = 1, n
    call near(d(i, 1), sin(x(i))); call near(d(i, 2), cos(x(i))); call near(d(i, 3), tan(x(i)))
    call near(d(i, 4), asin(x(i))); call near(d(i, 5), acos(x(i))); call near(d(i, 6), atan2(x(i), 2d0))
    call near(d(i, 7), exp(x(i))); call near(d(i, 8), log(x(i))); call near(d(i, 9), log10(x(i)))
    call near(d(i, 10), sqrt(x(i))); call near(d(i, 11), sinh(x(i))); call near(d(i, 12), tanh(x(i)))
    call near(d(i, 13), x(i)**3.5d0); call near(d(i, 14), gamma(x(i))); call near(d(i, 15), erf(x(i)))
    call near(d(i, 16), hypot(x(i), 3d0))
    call close_to(f(i, 1), sin(real(x(i)))); call close_to(f(i, 2), exp(real(x(i)))); call close_to(f(i, 3), sqrt(real(x(i))))
    call close_to(f(i, 4), real(x(i))**2); call close_to(f(i, 5), real(x(i))); call close_to(f(i, 6), aint(10*real(x(i))))
    call close_to(f(i, 7), mod(7.0, real(x(i)) + 1)); call close_to(f(i, 8), sign(2.0, real(x(i)) - 0.5))
    call equal('nint', k(i, 1), nint(10*x(i)))
    call equal('floor', k(i, 2), floor(-10*x(i)))
    call equal('ceiling', k(i, 3), ceiling(10*x(i)))
    call equal('modulo', k(i, 4), modulo(-i, 7))
    call equal('popcnt', k(i, 5), popcnt(i))
    call equal('leadz', k(i, 6), leadz(i))
    call equal('ishft', k(i, 7), 8*i)
    call equal('ibset', k(i, 8), i + 1024)
  end do
  call pass()
contains
  subroutine near(got, wanted)
    real(8), intent(in) :: got, wanted
    if (abs(got - wanted) > 1d-12*max(1d0, abs(wanted))) call equal('double', got, wanted)
  end subroutine
  subroutine close_to(got, wanted)
    real(4), intent(in) :: got, wanted
    if (abs(got - wanted) > 1e-5*max(1.0, abs(wanted))) call equal('single', got, wanted)
  end subroutine
end program
