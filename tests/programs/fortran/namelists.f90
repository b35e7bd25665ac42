! Namelists, unformatted and formatted files around data on the device: a run that is read, stepped, saved and begun again.
program main
  use check
  implicit none
  integer, parameter :: n = 200
  integer :: steps, every, i, k, unit, k0
  real(8) :: rate, u(n), saved(n)
  character(200) :: input(3)
  namelist /run/ steps, every, rate
  steps = 1
  every = 1
  rate = 0
  input = [character(200) :: '&run', ' steps = 12, every = 5, rate = 0.25d0', '/']
  read (input, nml=run)
  u = [(real(i, 8), i = 1, n)]
  open (newunit=unit, status='scratch', form='unformatted')
  !$acc enter data copyin(u)
  do k = 1, steps
    call step()
    if (mod(k, every) == 0) then
      !$acc update self(u)
      rewind (unit)
      write (unit) k, u
    end if
  end do
  !$acc update self(u)
  saved = u
  u = -1
  rewind (unit)
  read (unit) k0, u
  call equal('saved step', k0, 10)
  !$acc update device(u)
  do k = k0 + 1, steps
    call step()
  end do
  !$acc exit data copyout(u)
  close (unit)
  call equal('as without a stop', count(abs(u - saved) > 0), 0)
  call equal('u', abs(u(n) - n*1.25d0**12) < 1d-9, .true.)
  call pass()
contains
  subroutine step()
    integer :: i
    !$acc parallel loop present(u) copyin(rate)
    do i = 1, n
      u(i) = u(i)*(1 + rate)
    end do
  end subroutine
end program
