! Threads of OpenMP that each use the device: regions and data of their own, queues of their own.
! BUILD offload=no
! BUILD flags=-fopenmp
program main
  use check
  use omp_lib
  implicit none
  integer :: totals(4), t
  totals = 0
  !$omp parallel do num_threads(4)
  do t = 1, 4
    call work(t, totals(t))
  end do
  do t = 1, 4
    call equal('total', totals(t), 10*(5050*t + 100))
  end do
  call pass()
contains
  subroutine work(t, total)
    integer, intent(in) :: t
    integer, intent(out) :: total
    integer :: a(100), i, round
    total = 0
    do round = 1, 10
      a = 1
      !$acc data copy(a)
      !$acc parallel loop async(t)
      do i = 1, 100
        a(i) = a(i) + i*t
      end do
      !$acc wait(t)
      !$acc end data
      total = total + sum(a)
    end do
  end subroutine
end program
