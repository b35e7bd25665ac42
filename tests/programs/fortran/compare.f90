! ACCORD_COMPARE: an element of an allocatable array that differs has the indices of the source; ulp= replaces the usual limits.
! EXPECT device-memory
! EXPECT stderr=/accord: compare: compare\.f90:\d+, .*: region .* on dev\d+ \(node .*\): field\(3,-1\) \(compare\.f90:\d+.*\) is \d+\.0, on the CPU device \d+\.0; 1 of 40 elements differs/
! EXPECT stderr=/accord: compare: compared \d runs of \d regions with a CPU device: 1 run differs\n/
! RUN env=ACCORD_COMPARE=ulp=4
! BUILD offload=no
! BUILD flags=-g -O0
program main
  use openacc
  use iso_c_binding, only: c_int
  implicit none
  interface
    function getpid() bind(c) result(id)
      import :: c_int
      !$acc routine seq
      integer(c_int) :: id
    end function
  end interface
  real, allocatable :: field(:, :)
  integer :: i, j
  allocate (field(10, -2:1), source=0.)
  !$acc data copy(field)
  !$acc parallel loop collapse(2) present(field)
  do j = -2, 1
    do i = 1, 10
      field(i, j) = i / 3.
      if (i == 3 .and. j == -1) field(i, j) = getpid()
    end do
  end do
  !$acc parallel loop collapse(2) present(field)
  do j = -2, 1
    do i = 1, 10
      field(i, j) = sqrt(field(i, j))
    end do
  end do
  !$acc end data
  if (abs(field(9, 1) - sqrt(3.)) > 1e-5) then
    write (*, '(a)') 'FAIL the values'
    stop 2
  end if
  write (*, '(a)') 'PASS'
end program
