! ACCORD_CHECK=bounds: a region writes one column too many, of an array that has been correct until then.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/check_bounds\.f90:\d+.*ended with SIGSEGV.*no data is there; it is \d+ bytes behind the end of the nearest, the 80000 bytes of field \(check_bounds\.f90:\d+, (main|MAIN__)\)/
! RUN env=ACCORD_CHECK=bounds
! BUILD offload=no
! BUILD flags=-g
program main
  use openacc
  implicit none
  real(8), allocatable :: field(:, :)
  integer :: i, j, columns
  allocate (field(100, 100), source=0d0)
  columns = 100
  !$acc enter data copyin(field)
  !$acc parallel loop collapse(2) present(field)
  do j = 1, columns
    do i = 1, 100
      field(i, j) = i + j
    end do
  end do
  !$acc update self(field)
  if (any(field(100, :) /= [(100 + j, j=1, 100)])) then
    write (*, '(a)') 'FAIL the first region'
    stop 2
  end if
  columns = columns + 2
  !$acc parallel loop collapse(2) present(field)
  do j = 1, columns
    do i = 1, 100
      field(i, j) = i + j
    end do
  end do
  write (*, '(a)') 'FAIL the region came back'
end program
