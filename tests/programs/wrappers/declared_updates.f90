! What update says of whole declare variables, which GCC leaves out: built by accord fc the bytes are moved (2.14.4).
program main
  use state
  use numbers, only: steps => n, weights
  implicit none
  real(8) :: a(5)
  integer :: i
  logical :: asked = .false.
  steps = 3; dt = 0.5d0; mass = (1, 2); name = 'abcde'; on = .true.
  v = [(i, i = 1, 10)]
  m = 2
  c%i = 4; c%x = 5
  cs%i = 6
  weights = 1.25
  !$acc update device(steps, dt, v, m, c, &
  !$acc & cs, mass, NAME, on) ! all of them
  !$acc update device(weights)
  a = -1
  call fill(a)
  if (any(a /= 3*0.5d0 + 1 + 2 + 4 + 5 + 6 + 1.25d0 + 2 + 97 + 1)) call failed(1)

  dt = 0.25d0
  v(1) = 100
  if (size(a) == 5) then
    !$acc update device(dt, v) async(2) if(ask())
  end if
  if (.not. asked) call failed(2)
  !$acc update device(v) wait(2) async
  !$acc update device(dt) wait(2) async
  !$acc wait
  v(1) = 0
  dt = 0
  !$acc update device(dt, v) if(size(a) == 6)
  call fill(a)
  if (any(a /= 3*0.25d0 + 100 + 2 + 4 + 5 + 6 + 1.25d0 + 2 + 97 + 1)) call failed(3)

  call change()
  !$acc update self(v, dt) host(c) if_present
  if (v(2) /= -2 .or. dt /= 9 .or. c%i /= 44 .or. any(c%x /= 5)) call failed(4)
  call shadowed(3)
  print '(a)', 'PASS'
contains
  logical function ask()
    ask = .true.
    asked = .true.
  end function
  subroutine shadowed(k)
    integer, intent(in) :: k
    integer :: dt(k)
    dt = 1
    !$acc data create(dt)
    !$acc update device(dt)
    dt = 0
    !$acc update self(dt)
    !$acc end data
    if (any(dt /= 1)) call failed(5)
  end subroutine
end program
