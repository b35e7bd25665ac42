! loop tile, with tiles that don't fit into the loops (2.9.8). GCC 12's code for nvptx leaves iterations out, also under its own runtime.
! BUILD offload=no
program main
  use check
  implicit none
  integer :: b(30, 20), c(7, 9, 5), i, j, k
  b = -1
  !$acc parallel loop tile(4, 8) copy(b)
  do j = 1, 20
    do i = 1, 30
      b(i, j) = i*j
    end do
  end do
  do j = 1, 20
    do i = 1, 30
      call equal('b', b(i, j), i*j)
    end do
  end do
  !$acc parallel copyout(c)
  !$acc loop tile(*, 4, 2)
  do k = 1, 5
    do j = 1, 9
      do i = 1, 7
        c(i, j, k) = 100*i + 10*j + k
      end do
    end do
  end do
  !$acc end parallel
  call equal('c', c(7, 9, 5), 795)
  call equal('sum', sum(c), sum([(((100*i + 10*j + k, i = 1, 7), j = 1, 9), k = 1, 5)]))
  call pass()
end program
