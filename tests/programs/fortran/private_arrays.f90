! private and firstprivate: arrays, scalars, and derived types (2.5.13, 2.5.14).
program main
  use check
  implicit none
  type pair
    integer :: x
    real(8) :: y
  end type
  integer :: start(4), work(8), out(20), i, k, base
  type(pair) :: p
  real(8) :: sums(20), table(64)
  start = [1, 2, 3, 4]
  base = 1000
  p = pair(7, 0.25d0)
  table = [(0.5d0*i, i = 1, 64)]
  !$acc parallel loop firstprivate(start, base, p) copyout(out, sums)
  do i = 1, 20
    out(i) = base + start(mod(i, 4) + 1) + p%x
    sums(i) = p%y*i
  end do
  do i = 1, 20
    call equal('out(i)', out(i), 1007 + mod(i, 4) + 1)
    call equal('sums(i)', sums(i), 0.25d0*i)
  end do
  !$acc parallel loop gang private(work) copyout(out)
  do i = 1, 20
    do k = 1, 8
      work(k) = i*k
    end do
    out(i) = sum(work)
  end do
  call equal('out(20)', out(20), 720)
  ! Changed in the region, and not seen outside.
  !$acc parallel num_gangs(1) firstprivate(table, base) copyout(sums)
  do i = 1, 64
    table(i) = table(i) + 1
  end do
  base = -1
  sums(1) = sum(table)
  !$acc end parallel
  call equal('sums(1)', sums(1), 0.5d0*2080 + 64)
  call equal('table(1)', table(1), 0.5d0)
  call equal('base', base, 1000)
  call pass()
end program
