! Reals of 10 and 16 bytes: devices that run on this machine's cores have them, GPUs have not, and GCC says so when it compiles.
! BUILD offload=no
program main
  use check
  implicit none
  integer, parameter :: q = 16, n = 30
  real(q) :: a(n), s
  real(10) :: b(n), t
  complex(q) :: z(4)
  integer :: i
  a = 1/3.0_q
  b = 1/3.0_10
  z = (1.0_q, 2.0_q)
  s = 0
  t = 0
  !$acc parallel loop copy(a, b) copy(z)
  do i = 1, n
    a(i) = a(i)*i + sqrt(2.0_q)
    b(i) = b(i)*i
    if (i <= 4) z(i) = z(i)*(0.0_q, 1.0_q)
  end do
  !$acc serial copy(s, t) copyin(a, b)
  do i = 1, n
    s = s + a(i)
    t = t + b(i)
  end do
  !$acc end serial
  call equal('33 digits', abs(s - (155 + 30*sqrt(2.0_q))) < 1e-30_q, .true.)
  call equal('18 digits', abs(t - 155) < 1e-16_10, .true.)
  call equal('complex', real(z(4), 8), -2d0)
  call equal('imaginary', real(aimag(z(1)), 8), 1d0)
  call pass()
end program
