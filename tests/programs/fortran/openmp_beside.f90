! OpenMP and OpenACC in one program: threads over queues and over devices, worksharing on the host while queues work, and critical
! sections around data routines. GCC refuses a directive of the one inside of
! a region of the other, so they meet in procedures.
! BUILD offload=no
! BUILD flags=-fopenmp
module parts
  implicit none
  integer, parameter :: n = 2000
contains
  subroutine advance(a, b, k)
    integer, intent(in) :: k
    real(8), intent(inout) :: a(n)
    real(8), intent(in) :: b(n)
    integer :: i
    !$acc parallel loop present(a, b) async(k)
    do i = 1, n
      a(i) = a(i)*k + b(i)
    end do
    !$acc update self(a) async(k)
  end subroutine
  subroutine add(b)
    real(8), intent(inout) :: b(n)
    integer :: i
    !$acc parallel loop copy(b)
    do i = 1, n
      b(i) = b(i) + i
    end do
  end subroutine
end module
program main
  use omp_lib
  use check
  use parts
  implicit none
  integer, parameter :: columns = 8
  real(8) :: a(n, columns), b(n), host
  integer :: i, k, d, kind, before, count_, wrong
  a = 1
  b = 2
  host = 0
  !$acc enter data copyin(a, b)
  !$omp parallel do num_threads(4) schedule(dynamic)
  do k = 1, columns
    call advance(a(:, k), b, k)
  end do
  !$omp end parallel do
  !$omp parallel do reduction(+:host)
  do i = 1, n
    host = host + sqrt(real(i, 8))
  end do
  !$acc wait
  do k = 1, columns
    call equal('a', count(a(:, k) /= k + 2), 0)
  end do
  call equal('the host''s share', host > n, .true.)
  !$acc exit data delete(a, b)
  kind = acc_get_device_type()
  before = acc_get_device_num(kind)
  count_ = acc_get_num_devices(kind)
  wrong = 0
  !$omp parallel num_threads(3) private(d, i, b) reduction(+:wrong)
  do d = 0, count_ - 1
    call acc_set_device_num(d, kind)
    b = omp_get_thread_num()
    call add(b)
    wrong = wrong + count(b /= [(omp_get_thread_num() + i, i = 1, n)])
  end do
  !$omp end parallel
  call equal('wrong on any device', wrong, 0)
  call acc_set_device_num(before, kind)
  wrong = 0
  b = 0
  !$omp parallel do num_threads(4) reduction(+:wrong)
  do k = 1, 40
    !$omp critical
    call acc_copyin(b)
    !$omp end critical
    if (.not. acc_is_present(b)) wrong = wrong + 1
    !$omp critical
    call acc_delete(b)
    !$omp end critical
  end do
  call equal('counted', wrong, 0)
  call equal('given up', acc_is_present(b), want(.false., .true.))
  call pass()
end program
