! Optional arguments in clauses that take a value (if, async, wait, num_gangs, vector_length), and handed on, absent, to a procedure
! that names them in its own clauses.
module options
  implicit none
contains
  subroutine outer(a, n, by, queue, on_device, log)
    integer, intent(in) :: n
    integer, intent(inout) :: a(n)
    integer, optional, intent(in) :: by, queue
    logical, optional, intent(in) :: on_device
    integer, optional, allocatable, intent(inout) :: log(:)
    integer :: q
    logical :: here
    q = -2
    if (present(queue)) q = queue
    here = .true.
    if (present(on_device)) here = on_device
    call inner(a, n, q, here, by, log)
    if (present(queue)) then
      !$acc wait(queue)
    end if
  end subroutine
  subroutine inner(a, n, q, here, by, log)
    integer, intent(in) :: n, q
    integer, intent(inout) :: a(n)
    logical, intent(in) :: here
    integer, optional, intent(in) :: by
    integer, optional, allocatable, intent(inout) :: log(:)
    integer :: i
    !$acc data copy(a, log) copyin(by) if(here)
    !$acc parallel loop if(here) async(q) num_gangs(n/2 + 1) vector_length(32)
    do i = 1, n
      a(i) = a(i) + 1
      if (present(by)) a(i) = a(i)*by
      if (present(log)) log(i) = a(i)
    end do
    !$acc wait
    !$acc end data
  end subroutine
end module
program main
  use check
  use options
  implicit none
  integer :: a(16)
  integer, allocatable :: log(:)
  a = 1
  call outer(a, 16)
  call equal('nothing', sum(a), 32)
  call outer(a, 16, 3)
  call equal('by', sum(a), 16*9)
  call outer(a, 16, queue=5)
  call equal('queue', sum(a), 16*10)
  call outer(a, 16, 2, 6, .false.)
  call equal('on the host', sum(a), 16*22)
  allocate (log(16))
  log = 0
  call outer(a, 16, 2, on_device=.true., log=log)
  call equal('log', sum(log), 16*46)
  call outer(a, 16, log=log)
  call equal('log again', sum(log), 16*47)
  call equal('a', sum(a), 16*47)
  call pass()
end program
