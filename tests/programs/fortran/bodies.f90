! Arrays of a type by value: particles that a time step reads and writes, and their energy by reduction.
module particles
  implicit none
  type body
    real(8) :: x(3), v(3), mass
  end type
contains
  pure real(8) function square(x)
    !$acc routine seq
    real(8), intent(in) :: x(3)
    square = x(1)**2 + x(2)**2 + x(3)**2
  end function
  subroutine step(all, dt)
    type(body), intent(inout) :: all(:)
    real(8), intent(in) :: dt
    integer :: i, j
    real(8) :: d(3), f(3)
    !$acc parallel loop gang vector present(all) private(d, f)
    do i = 1, size(all)
      f = 0
      do j = 1, size(all)
        if (i == j) cycle
        d = all(j)%x - all(i)%x
        f = f + d*all(j)%mass/(square(d) + 0.1d0)**1.5d0
      end do
      all(i)%v = all(i)%v + dt*f
    end do
    !$acc parallel loop present(all)
    do i = 1, size(all)
      all(i)%x = all(i)%x + dt*all(i)%v
    end do
  end subroutine
end module
program main
  use check
  use particles
  implicit none
  type(body) :: all(30)
  real(8) :: momentum(3), px, py, pz
  integer :: i, k
  do i = 1, 30
    all(i) = body([cos(1d0*i), sin(2d0*i), cos(3d0*i)], [0d0, 0d0, 0d0], 1 + mod(i, 3))
  end do
  !$acc data copy(all)
  do k = 1, 20
    call step(all, 0.01d0)
  end do
  px = 0
  py = 0
  pz = 0
  !$acc parallel loop reduction(+:px, py, pz)
  do i = 1, 30
    px = px + all(i)%mass*all(i)%v(1)
    py = py + all(i)%mass*all(i)%v(2)
    pz = pz + all(i)%mass*all(i)%v(3)
  end do
  !$acc end data
  momentum = [px, py, pz]
  call equal('momentum stays', maxval(abs(momentum)) < 1d-10, .true.)
  call equal('they move', abs(all(1)%v(1)) > 1d-3, .true.)
  call pass()
end program
