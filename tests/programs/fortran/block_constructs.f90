! BLOCK and ASSOCIATE around and inside of constructs.
program main
  use check
  implicit none
  integer :: a(30), i
  a = 0
  block
    integer :: b(30), k
    b = [(k, k = 1, 30)]
    !$acc data copyin(b)
    !$acc parallel loop copy(a)
    do i = 1, 30
      block
        integer :: t
        t = b(i)*2
        a(i) = a(i) + t
      end block
    end do
    !$acc end data
  end block
  call equal('a', sum(a), 930)
  block
    integer :: b(30)
    b = 7
    !$acc enter data copyin(b)
    !$acc parallel loop present(b) copy(a)
    do i = 1, 30
      a(i) = a(i) + b(i)
    end do
    !$acc exit data delete(b)
  end block
  call equal('a again', sum(a), 1140)
  associate (n => size(a), first => a(1))
    !$acc parallel loop copy(a)
    do i = 1, n
      a(i) = 1
    end do
    call equal('first', first, 1)
  end associate
  call pass()
end program
