! loop: collapse, private, independent, seq, auto, and their nesting (2.9).
program main
  use check
  implicit none
  integer :: a(12, 10, 8), b(30, 20), i, j, k, t, u(3), s, tri(10)
  !$acc parallel loop collapse(3) copyout(a) private(t)
  do k = 1, 8
    do j = 1, 10
      do i = 1, 12
        t = i + 100*j
        a(i, j, k) = t + 10000*k
      end do
    end do
  end do
  call equal('a', a(12, 10, 8), 81012)
  call equal('sum of a', sum(a), sum([(((i + 100*j + 10000*k, i = 1, 12), j = 1, 10), k = 1, 8)]))
  !$acc parallel loop collapse(2) independent copyout(b)
  do j = 1, 20
    do i = 1, 30
      b(i, j) = i*j
    end do
  end do
  call equal('b', sum(b), sum([((i*j, i = 1, 30), j = 1, 20)]))
  !$acc parallel copy(b)
  !$acc loop gang private(u)
  do j = 1, 20
    u = [j, 2*j, 3*j]
    !$acc loop vector
    do i = 1, 30
      b(i, j) = b(i, j) + u(mod(i, 3) + 1)
    end do
  end do
  !$acc end parallel
  call equal('b with u', b(30, 20), 620)
  call equal('b with u', b(29, 7), 29*7 + 21)
  !$acc kernels copy(b)
  !$acc loop independent
  do j = 1, 20
    !$acc loop independent
    do i = 1, 30
      b(i, j) = -b(i, j)
    end do
  end do
  !$acc end kernels
  call equal('negative', b(30, 20), -620)
  !$acc parallel loop gang copyout(tri) private(s)
  do j = 1, 10
    s = 0
    !$acc loop seq
    do i = 1, j
      s = s + i
    end do
    tri(j) = s
  end do
  call equal('tri', tri(10), 55)
  ! Steps other than 1, down, and not at all.
  tri = 0
  !$acc parallel loop copy(tri)
  do i = 10, 1, -3
    tri(i) = i
  end do
  call equal('down', sum(tri), 22)
  !$acc parallel loop copy(tri)
  do i = 5, 4
    tri(i) = 1000
  end do
  call equal('none', sum(tri), 22)
  ! The loop's variable after the loop is the program's own.
  i = 99
  !$acc parallel loop copy(tri)
  do i = 1, 10
    tri(i) = i
  end do
  call equal('tri(10)', tri(10), 10)
  call pass()
end program
