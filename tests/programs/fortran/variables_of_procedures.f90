! Kinds of variables against ways to bring them to the device, in each case compared with the same loops on the host.
! Written by a generator of random combinations.
module variables
  use check
  implicit none
  integer, allocatable :: m3(:)
  complex, pointer :: m4(:)
  integer(2) :: m5(1:8,1:4)
  real :: m6(-3:60)
  !$acc declare create(m6)
contains
  subroutine s0()
    integer(8), allocatable :: a(:,:)
    integer :: got, i0, lo0, hi0, i1, lo1, hi1
    allocate(a(1:3,0:4))
    lo0=lbound(a,1); hi0=ubound(a,1)
    lo1=lbound(a,2); hi1=ubound(a,2)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = 3*i0+6*i1
    end do
    end do
    !$acc parallel loop collapse(2) 
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = a(i0,i1) * 2 + (i0+i1)
    end do
    end do
    got = int(sum(a) + 7*a(lo0,lo1) + 5*a(hi0,hi1))
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = 3*i0+6*i1
    end do
    end do
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = a(i0,i1) * 2 + (i0+i1)
    end do
    end do
    call equal("alloc implicit parallel loop(2)", got, int(sum(a) + 7*a(lo0,lo1) + 5*a(hi0,hi1)))
  end subroutine
  subroutine s1()
    integer(2), pointer :: a(:)
    integer :: got, i0, lo0, hi0
    allocate(a(0:0))
    lo0=lbound(a,1); hi0=ubound(a,1)
    do i0 = lo0, hi0
      a(i0) = int(3*i0,2)
    end do
    !$acc data copy(a)
    !$acc parallel loop 
    do i0 = lo0, hi0
      a(i0) = a(i0) + int(i0,2)
    end do
    !$acc end data
    got = int(sum(a) + 7*a(lo0) + 5*a(hi0))
    do i0 = lo0, hi0
      a(i0) = int(3*i0,2)
    end do
    do i0 = lo0, hi0
      a(i0) = a(i0) + int(i0,2)
    end do
    call equal("ptr data parallel loop", got, int(sum(a) + 7*a(lo0) + 5*a(hi0)))
  end subroutine
  subroutine s2()
    real(8), target :: b(1:3,1:8)
    real(8), pointer :: a(:,:)
    integer :: got, i0, lo0, hi0, i1, lo1, hi1
    a => b
    lo0=lbound(a,1); hi0=ubound(a,1)
    lo1=lbound(a,2); hi1=ubound(a,2)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = real(3*i0+6*i1)
    end do
    end do
    !$acc data copyin(a)
    !$acc kernels loop present(a)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = a(i0,i1) * 0.5 + (i0+i1)
    end do
    end do
    !$acc update self(a)
    !$acc end data
    got = nint(2*(sum(a) + 7*a(lo0,lo1) + 5*a(hi0,hi1)))
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = real(3*i0+6*i1)
    end do
    end do
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = a(i0,i1) * 0.5 + (i0+i1)
    end do
    end do
    call equal("target data_present kernels loop", got, nint(2*(sum(a) + 7*a(lo0,lo1) + 5*a(hi0,hi1))))
  end subroutine
  subroutine s3()
    integer :: got, i0, lo0, hi0
    allocate(m3(-3:-3))
    lo0=lbound(m3,1); hi0=ubound(m3,1)
    do i0 = lo0, hi0
      m3(i0) = 3*i0
    end do
    !$acc enter data copyin(m3)
    !$acc parallel loop present(m3)
    do i0 = lo0, hi0
      m3(i0) = m3(i0) * 2 + (i0)
    end do
    !$acc exit data copyout(m3)
    got = int(sum(m3) + 7*m3(lo0) + 5*m3(hi0))
    do i0 = lo0, hi0
      m3(i0) = 3*i0
    end do
    do i0 = lo0, hi0
      m3(i0) = m3(i0) * 2 + (i0)
    end do
    call equal("mod_alloc enter parallel loop", got, int(sum(m3) + 7*m3(lo0) + 5*m3(hi0)))
  end subroutine
  subroutine s4()
    integer :: got, i0, lo0, hi0
    allocate(m4(1:64))
    lo0=lbound(m4,1); hi0=ubound(m4,1)
    do i0 = lo0, hi0
      m4(i0) = cmplx(3*i0,1.0)
    end do
    !$acc enter data create(m4)
    !$acc update device(m4)
    !$acc kernels loop present(m4)
    do i0 = lo0, hi0
      m4(i0) = m4(i0) * (0.0,1.0) + (i0)
    end do
    !$acc update self(m4)
    !$acc exit data delete(m4)
    got = nint(2*real(sum(m4) + 7*m4(lo0) + 5*m4(hi0)) + 6*aimag(sum(m4) + 7*m4(lo0) + 5*m4(hi0)))
    do i0 = lo0, hi0
      m4(i0) = cmplx(3*i0,1.0)
    end do
    do i0 = lo0, hi0
      m4(i0) = m4(i0) * (0.0,1.0) + (i0)
    end do
    call equal("mod_ptr enter_create kernels loop", got, nint(2*real(sum(m4) + 7*m4(lo0) + 5*m4(hi0)) + 6*aimag(sum(m4) &
      & + 7*m4(lo0) + 5*m4(hi0))))
  end subroutine
  subroutine s5()
    integer :: got, i0, lo0, hi0, i1, lo1, hi1
    lo0=lbound(m5,1); hi0=ubound(m5,1)
    lo1=lbound(m5,2); hi1=ubound(m5,2)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      m5(i0,i1) = int(3*i0+6*i1,2)
    end do
    end do
    !$acc kernels copy(m5) async(2)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      m5(i0,i1) = m5(i0,i1) + int(i0+i1,2)
    end do
    end do
    !$acc end kernels
    !$acc wait(2)
    got = int(sum(m5) + 7*m5(lo0,lo1) + 5*m5(hi0,hi1))
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      m5(i0,i1) = int(3*i0+6*i1,2)
    end do
    end do
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      m5(i0,i1) = m5(i0,i1) + int(i0+i1,2)
    end do
    end do
    call equal("mod_static async kernels", got, int(sum(m5) + 7*m5(lo0,lo1) + 5*m5(hi0,hi1)))
  end subroutine
  subroutine s6()
    integer :: got, i0, lo0, hi0
    lo0=lbound(m6,1); hi0=ubound(m6,1)
    do i0 = lo0, hi0
      m6(i0) = real(3*i0)
    end do
    !$acc update device(m6(:))
    !$acc parallel loop default(present)
    do i0 = lo0, hi0
      m6(i0) = m6(i0) * 0.5 + (i0)
    end do
    !$acc update self(m6(:))
    got = nint(2*(sum(m6) + 7*m6(lo0) + 5*m6(hi0)))
    do i0 = lo0, hi0
      m6(i0) = real(3*i0)
    end do
    do i0 = lo0, hi0
      m6(i0) = m6(i0) * 0.5 + (i0)
    end do
    call equal("mod_declare async_enter parallel loop", got, nint(2*(sum(m6) + 7*m6(lo0) + 5*m6(hi0))))
  end subroutine
  subroutine w7(a)
    complex, contiguous :: a(:)
    integer :: got, mid, i0, lo0, hi0
    lo0=lbound(a,1); hi0=ubound(a,1)
    do i0 = lo0, hi0
      a(i0) = cmplx(3*i0,1.0)
    end do
    mid = (lo0+hi0)/2
    !$acc enter data copyin(a)
    !$acc kernels loop present(a)
    do i0 = lo0, hi0
      a(i0) = a(i0) * (0.0,1.0) + (i0)
    end do
    !$acc update self(a(lo0:mid))
    !$acc update self(a(mid+1:hi0))
    !$acc exit data delete(a)
    got = nint(2*real(sum(a) + 7*a(lo0) + 5*a(hi0)) + 6*aimag(sum(a) + 7*a(lo0) + 5*a(hi0)))
    do i0 = lo0, hi0
      a(i0) = cmplx(3*i0,1.0)
    end do
    do i0 = lo0, hi0
      a(i0) = a(i0) * (0.0,1.0) + (i0)
    end do
    call equal("assumed section_update kernels loop", got, nint(2*real(sum(a) + 7*a(lo0) + 5*a(hi0)) + 6*aimag(sum(a) + &
      & 7*a(lo0) + 5*a(hi0))))
  end subroutine
  subroutine s7()
    complex, allocatable :: b(:)
    allocate(b(1:1))
    call w7(b)
  end subroutine
  subroutine w8(a,n0,n1,n2)
    complex(8) :: a(n0,n1,n2)
    integer :: n0,n1,n2
    integer :: got, i0, lo0, hi0, i1, lo1, hi1, i2, lo2, hi2
    lo0=lbound(a,1); hi0=ubound(a,1)
    lo1=lbound(a,2); hi1=ubound(a,2)
    lo2=lbound(a,3); hi2=ubound(a,3)
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = cmplx(3*i0+6*i1+9*i2,1.0)
    end do
    end do
    end do
    !$acc kernels loop copy(a)
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = a(i0,i1,i2) * (0.0,1.0) + (i0+i1+i2)
    end do
    end do
    end do
    !$acc kernels loop copy(a)
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = a(i0,i1,i2) * (0.0,1.0) + (i0+i1+i2)
    end do
    end do
    end do
    got = nint(2*real(sum(a) + 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2)) + 6*aimag(sum(a) + 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2)))
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = cmplx(3*i0+6*i1+9*i2,1.0)
    end do
    end do
    end do
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = a(i0,i1,i2) * (0.0,1.0) + (i0+i1+i2)
    end do
    end do
    end do
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = a(i0,i1,i2) * (0.0,1.0) + (i0+i1+i2)
    end do
    end do
    end do
    call equal("explicit twice kernels loop", got, nint(2*real(sum(a) + 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2)) + &
      & 6*aimag(sum(a) + 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2))))
  end subroutine
  subroutine s8()
    complex(8), allocatable :: b(:,:,:)
    allocate(b(-3:0,0:4,-3:1))
    call w8(b,4,5,5)
  end subroutine
  subroutine w9(a,n0,n1,n2)
    integer(8) :: a(n0,n1,*)
    integer :: n0,n1,n2
    integer :: got, i0, lo0, hi0, i1, lo1, hi1, i2, lo2, hi2
    lo0=1; hi0=n0
    lo1=1; hi1=n1
    lo2=1; hi2=n2
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = 3*i0+6*i1+9*i2
    end do
    end do
    end do
    !$acc parallel loop collapse(3) copy(a(:,:,1:n2))
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = a(i0,i1,i2) * 2 + (i0+i1+i2)
    end do
    end do
    end do
    got = int(sum(a(:,:,1:n2)) + 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2))
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = 3*i0+6*i1+9*i2
    end do
    end do
    end do
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = a(i0,i1,i2) * 2 + (i0+i1+i2)
    end do
    end do
    end do
    call equal("size copy parallel loop(3)", got, int(sum(a(:,:,1:n2)) + 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2)))
  end subroutine
  subroutine s9()
    integer(8), allocatable :: b(:,:,:)
    allocate(b(1:8,-3:4,1:4))
    call w9(b,8,8,4)
  end subroutine
  subroutine w10(a)
    integer(2), allocatable :: a(:)
    integer :: got, i0, lo0, hi0
    lo0=lbound(a,1); hi0=ubound(a,1)
    do i0 = lo0, hi0
      a(i0) = int(3*i0,2)
    end do
    !$acc parallel loop 
    do i0 = lo0, hi0
      a(i0) = a(i0) + int(i0,2)
    end do
    got = int(sum(a) + 7*a(lo0) + 5*a(hi0))
    do i0 = lo0, hi0
      a(i0) = int(3*i0,2)
    end do
    do i0 = lo0, hi0
      a(i0) = a(i0) + int(i0,2)
    end do
    call equal("d_alloc implicit parallel loop", got, int(sum(a) + 7*a(lo0) + 5*a(hi0)))
  end subroutine
  subroutine s10()
    integer(2), allocatable :: b(:)
    allocate(b(0:99))
    call w10(b)
  end subroutine
  subroutine w11(a)
    integer, pointer :: a(:,:)
    integer :: got, i0, lo0, hi0, i1, lo1, hi1
    lo0=lbound(a,1); hi0=ubound(a,1)
    lo1=lbound(a,2); hi1=ubound(a,2)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = 3*i0+6*i1
    end do
    end do
    !$acc data copy(a)
    !$acc parallel loop collapse(2) 
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = a(i0,i1) * 2 + (i0+i1)
    end do
    end do
    !$acc end data
    got = int(sum(a) + 7*a(lo0,lo1) + 5*a(hi0,hi1))
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = 3*i0+6*i1
    end do
    end do
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = a(i0,i1) * 2 + (i0+i1)
    end do
    end do
    call equal("d_ptr data parallel loop(2)", got, int(sum(a) + 7*a(lo0,lo1) + 5*a(hi0,hi1)))
  end subroutine
  subroutine s11()
    integer, pointer :: b(:,:)
    allocate(b(-3:-1,-3:1))
    call w11(b)
  end subroutine
  subroutine w12(a)
    complex(8), pointer :: a(:)
    integer :: got, i0, lo0, hi0
    lo0=lbound(a,1); hi0=ubound(a,1)
    do i0 = lo0, hi0
      a(i0) = cmplx(3*i0,1.0)
    end do
    !$acc data copyin(a)
    !$acc kernels loop present(a)
    do i0 = lo0, hi0
      a(i0) = a(i0) * (0.0,1.0) + (i0)
    end do
    !$acc update self(a)
    !$acc end data
    got = nint(2*real(sum(a) + 7*a(lo0) + 5*a(hi0)) + 6*aimag(sum(a) + 7*a(lo0) + 5*a(hi0)))
    do i0 = lo0, hi0
      a(i0) = cmplx(3*i0,1.0)
    end do
    do i0 = lo0, hi0
      a(i0) = a(i0) * (0.0,1.0) + (i0)
    end do
    call equal("d_ptr_target data_present kernels loop", got, nint(2*real(sum(a) + 7*a(lo0) + 5*a(hi0)) + &
      & 6*aimag(sum(a) + 7*a(lo0) + 5*a(hi0))))
  end subroutine
  subroutine s12()
    complex(8), target :: b(1:1)
    complex(8), pointer :: c(:)
    c => b
    call w12(c)
  end subroutine
end module
program main
  use variables
  implicit none
  call s0()
  call s1()
  call s2()
  call s3()
  call s4()
  call s5()
  call s6()
  call s7()
  call s8()
  call s9()
  call s10()
  call s11()
  call s12()
  call pass()
end program
