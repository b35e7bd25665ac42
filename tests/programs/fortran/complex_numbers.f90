! Complex arrays: arithmetic, parts, intrinsics, and a small Fourier transform.
program main
  use check
  implicit none
  integer, parameter :: n = 16
  complex(8) :: x(n), y(n), back(n), s
  complex(4) :: w(n)
  real(8) :: pi
  integer :: i, k
  pi = acos(-1d0)
  do i = 1, n
    x(i) = cmplx(mod(i, 3), -mod(i, 5), 8)
    w(i) = cmplx(i, 2*i)
  end do
  !$acc data copyin(x) create(y) copyout(back)
  !$acc parallel loop private(s)
  do k = 0, n - 1
    s = 0
    do i = 0, n - 1
      s = s + x(i + 1)*exp(cmplx(0d0, -2*pi*i*k/n, 8))
    end do
    y(k + 1) = s
  end do
  !$acc parallel loop private(s)
  do k = 0, n - 1
    s = 0
    do i = 0, n - 1
      s = s + y(i + 1)*exp(cmplx(0d0, 2*pi*i*k/n, 8))
    end do
    back(k + 1) = s/n
  end do
  !$acc end data
  do i = 1, n
    call equal('back', abs(back(i) - x(i)) < 1d-12, .true.)
  end do
  !$acc parallel loop copy(w)
  do i = 1, n
    w(i) = conjg(w(i))*(0.0, 1.0)
  end do
  call equal('real part', real(w(5)), 10.0)
  call equal('imaginary part', aimag(w(5)), 5.0)
  !$acc parallel loop copy(w)
  do i = 1, n
    w(i)%re = 0
  end do
  call equal('without real part', real(w(5)), 0.0)
  call equal('with imaginary part', aimag(w(5)), 5.0)
  call pass()
end program
